package coverage

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// LabelledSince is when the namespace got its label, at the latest: the time of
// the managedFields entry that has the label, or the creation of the namespace
// where there is none. The entry's time is that of the manager's last change of
// any of its fields (k8s.io/apimachinery meta/v1, ManagedFieldsEntry), so it may be
// too late, never too early. Of several that have the label each set it to the
// value that it has, so the first one counts.
func LabelledSince(namespace metav1.Object) time.Time {
	var since time.Time
	for _, entry := range namespace.GetManagedFields() {
		if entry.FieldsV1 == nil || entry.Time == nil || entry.Subresource != "" || !ownsLabel(entry.FieldsV1.GetRawBytes()) {
			continue
		}
		if since.IsZero() || entry.Time.Time.Before(since) {
			since = entry.Time.Time
		}
	}
	if since.IsZero() {
		return namespace.GetCreationTimestamp().Time
	}
	return since
}

// ownsLabel looks for the label in a set of fields.
func ownsLabel(fields []byte) bool {
	var set struct {
		Metadata struct {
			Labels map[string]json.RawMessage `json:"f:labels"`
		} `json:"f:metadata"`
	}
	if json.Unmarshal(fields, &set) != nil {
		return false
	}
	_, ok := set.Metadata.Labels["f:"+api.LabelInject]
	return ok
}
