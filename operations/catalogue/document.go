package catalogue

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Document is what the ConfigMap of a namespace says of one of its clusters.
type Document struct {
	Prefix string `json:"prefix"` // of the storage; empty where that has none, or is not known
	Pod    string `json:"pod"`    // that was asked
	// Listed is when the storage was last listed with success; zero if it never was. What
	// is counted is of then, and nothing where the latest try has failed.
	Listed   time.Time `json:"listed,omitzero"`
	Backups  int       `json:"backups"`           // in the storage
	Complete int       `json:"complete"`          // of them
	New      int       `json:"new"`               // objects that were made of what was found
	Missing  int       `json:"missing,omitempty"` // objects whose data are not there
	// Pending are backups that are not looked into yet: each takes a second or more, and
	// the newest come first.
	Pending   int `json:"pending,omitempty"`
	Running   int `json:"running,omitempty"`   // that somebody else makes now
	Elsewhere int `json:"elsewhere,omitempty"` // whose object is in another namespace
	Left      int `json:"left,omitempty"`      // without an object, as there are too many
	// Failed says why the storage cannot be listed, or what it shows cannot be believed;
	// Message, what else there is to say.
	Failed  string `json:"failed,omitempty"`
	Message string `json:"message,omitempty"`
}

// key is that of the document in the ConfigMap: the prefix, for people, where a key can
// be called that.
func (d *Document) key() string {
	if d.Prefix != "" && len(validation.IsConfigMapKey(d.Prefix)) == 0 {
		return d.Prefix
	}
	of := "prefix " + d.Prefix
	if d.Prefix == "" && d.Listed.IsZero() {
		of = "pod " + d.Pod
	}
	sum := sha256.Sum256([]byte(of))
	return "cluster-" + hex.EncodeToString(sum[:4])
}

// Documents are those of a ConfigMap, by prefix and pod. What is none is left out.
func Documents(cm *corev1.ConfigMap) []Document {
	var all []Document
	for _, text := range cm.Data {
		var d Document
		if json.Unmarshal([]byte(text), &d) == nil && (d.Pod != "" || d.Prefix != "" || d.Failed != "" || d.Message != "" || !d.Listed.IsZero()) {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b Document) int { return cmp.Or(cmp.Compare(a.Prefix, b.Prefix), cmp.Compare(a.Pod, b.Pod)) })
	return all
}

// data are the documents as a ConfigMap has them.
func data(all []Document) map[string]string {
	texts := map[string]string{}
	for i := range all {
		text, err := json.Marshal(&all[i])
		if err != nil {
			panic("encoding a document: " + err.Error()) // only a year beyond 9999 does that
		}
		texts[all[i].key()] = string(text)
	}
	return texts
}
