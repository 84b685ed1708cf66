package sync

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/operations/ask"
)

// Document is what the ConfigMap says of a cluster; operations/catalogue writes it. It
// is here once more as the command line needs nothing else of a controller.
type Document struct {
	Prefix    string    `json:"prefix"`
	Pod       string    `json:"pod"`
	Listed    time.Time `json:"listed,omitzero"`
	Backups   int       `json:"backups"`
	Complete  int       `json:"complete"`
	New       int       `json:"new"`
	Missing   int       `json:"missing,omitempty"`
	Pending   int       `json:"pending,omitempty"`
	Running   int       `json:"running,omitempty"`
	Elsewhere int       `json:"elsewhere,omitempty"`
	Left      int       `json:"left,omitempty"`
	Failed    string    `json:"failed,omitempty"`
	Message   string    `json:"message,omitempty"`
}

// Documents are those of a ConfigMap, by prefix and pod. What is none is left out.
func Documents(catalogue *corev1.ConfigMap) []Document {
	var all []Document
	for _, text := range catalogue.Data {
		var d Document
		if json.Unmarshal([]byte(text), &d) == nil && d != (Document{}) {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b Document) int { return cmp.Or(cmp.Compare(a.Prefix, b.Prefix), cmp.Compare(a.Pod, b.Pod)) })
	return all
}

// Found is what was found for a namespace.
type Found struct {
	Namespace string     `json:"namespace"`
	Clusters  []Document `json:"clusters"`
}

// unseen tells whether nobody could look: what is counted is not known then.
func (d *Document) unseen() bool {
	return d.Failed != "" || d.Pod == "" && d.Prefix == "" && d.Listed.IsZero()
}

// Failed tells whether the storage of a cluster could not be listed, or in a namespace
// that of none, as no pod runs that could be asked.
func Failed(all []Found) bool {
	return slices.ContainsFunc(all, func(f Found) bool {
		return len(f.Clusters) == 0 || slices.ContainsFunc(f.Clusters, func(d Document) bool { return d.unseen() })
	})
}

// Write writes what was found as a table, a line a cluster, and below it what there is
// to say of each.
func Write(w io.Writer, all []Found, namespaces bool, now time.Time) error {
	head := []string{"PREFIX", "POD", "LISTED", "BACKUPS", "COMPLETE", "NEW", "MISSING", "RUNNING"}
	if namespaces {
		head = append([]string{"NAMESPACE"}, head...)
	}
	rows, said := [][]string{head}, []string{}
	for _, f := range all {
		if len(f.Clusters) == 0 {
			said = append(said, fmt.Sprintf("namespace %s: no cluster was found: no injected pod has run there yet", f.Namespace))
		}
		for _, d := range f.Clusters {
			listed := metav1.NewTime(d.Listed)
			row := []string{ask.OrNone(d.Prefix), ask.OrNone(d.Pod), ask.Age(&listed, now), fmt.Sprint(d.Backups), fmt.Sprint(d.Complete), fmt.Sprint(d.New), fmt.Sprint(d.Missing), fmt.Sprint(d.Running)}
			if d.unseen() {
				row = []string{orUnknown(d.Prefix), orUnknown(d.Pod), unknown, unknown, unknown, unknown, unknown, unknown}
				if !d.Listed.IsZero() {
					row[2] = ask.Age(&listed, now)
				}
			}
			if namespaces {
				row = append([]string{f.Namespace}, row...)
			}
			rows = append(rows, row)
			for _, line := range d.says(f.Namespace) {
				if !slices.Contains(said, line) {
					said = append(said, line)
				}
			}
		}
	}
	if len(rows) > 1 {
		if err := ask.Table(w, rows); err != nil {
			return err
		}
		if len(said) > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
	}
	for _, line := range said {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// says is what there is to say beside the figures, a sentence each.
func (d *Document) says(namespace string) []string {
	of := ask.Clean(d.Prefix)
	switch {
	case of == "" && d.Pod == "":
		of = "namespace " + namespace
	case of == "":
		of = "pod " + ask.Clean(d.Pod) + " of namespace " + namespace
	}
	var lines []string
	if d.Failed != "" {
		lines = append(lines, of+": FAILED: "+ask.Clean(d.Failed))
	}
	if d.Message != "" {
		lines = append(lines, of+": "+ask.Clean(d.Message))
	}
	if d.Missing > 0 {
		lines = append(lines, fmt.Sprintf("%s: of %s the data have gone from the storage (phase Missing in kubectl stategraft backup list)", of, ask.Plural(d.Missing, "Backup")))
	}
	if d.Elsewhere > 0 {
		lines = append(lines, fmt.Sprintf("%s: %s other namespaces, which use the same prefix", of, have(d.Elsewhere, "has its object in", "have their objects in")))
	}
	if d.Left > 0 {
		lines = append(lines, fmt.Sprintf("%s: %s no object, as there are too many", of, have(d.Left, "has", "have")))
	}
	return lines
}

// unknown stands for what nobody could look at.
const unknown = "-"

func orUnknown(text string) string {
	if text == "" {
		return unknown
	}
	return ask.Clean(text)
}

func have(n int, one, more string) string {
	if n == 1 {
		return "1 backup " + one
	}
	return fmt.Sprintf("%d backups %s", n, more)
}
