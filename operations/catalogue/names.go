package catalogue

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// fitName is what the CustomResourceDefinition takes for spec.existing.name.
var fitName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:+-]*$`)

// fit tells whether an object can say of itself to be this backup.
func fit(prefix, name string) bool {
	const most = 253
	return fitName.MatchString(name) && len(name) <= most && !strings.Contains(name, "..") &&
		len(prefix) <= most && !strings.Contains(prefix, "/") && !strings.Contains(prefix, "..")
}

// object is that of a backup which was found. Whatever becomes of it, the data are kept
// until somebody asks for their deletion; then they are deleted before it goes, hence
// the finalizer.
func object(namespace, name, prefix, stored string) *api.Backup {
	b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{api.FinalizerBackup}}}
	b.Spec.Existing = &api.ExistingBackup{Name: stored, Prefix: prefix}
	b.Spec.DeletionPolicy = api.DeletionKeep
	if parts, ok := api.ParseStorageName(stored); ok && parts.Schedule != "" && len(validation.IsValidLabelValue(parts.Schedule)) == 0 {
		b.Labels = map[string]string{api.LabelSchedule: parts.Schedule}
	}
	return b
}
