package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

var errNone = errors.New("there are none")

// List reads the Backups of a namespace, or of all for none, the oldest first.
func List(ctx context.Context, c client.Reader, namespace string, options ...client.ListOption) (*api.BackupList, error) {
	list := &api.BackupList{}
	if err := c.List(ctx, list, append(options, client.InNamespace(namespace))...); err != nil {
		return nil, ask.Explain(err, "list", ask.Backups, namespace, "")
	}
	if len(list.Items) == 0 {
		if gone := ask.Within(ctx, c, namespace, errNone); !errors.Is(gone, errNone) {
			return nil, gone
		}
	}
	slices.SortStableFunc(list.Items, func(a, b api.Backup) int {
		if n := strings.Compare(a.Namespace, b.Namespace); n != 0 {
			return n
		}
		if n := begun(&a).Compare(begun(&b).Time); n != 0 {
			return n
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list, nil
}

// NoSchedule says that there is no BackupSchedule of a name, if so; in no namespace for
// none. Who may not see is not told.
func NoSchedule(ctx context.Context, c client.Reader, namespace, name string) error {
	var list api.BackupScheduleList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil || slices.ContainsFunc(list.Items, func(s api.BackupSchedule) bool { return s.Name == name }) {
		return nil
	}
	if namespace == "" {
		return fmt.Errorf("there is no BackupSchedule %s, nor a Backup of one", name)
	}
	return fmt.Errorf("there is no BackupSchedule %s in namespace %s, nor a Backup of one", name, namespace)
}

// begun is when the backup was begun, or else when it was asked for: the object of one
// that was found is younger than its data.
func begun(b *api.Backup) *metav1.Time {
	if !b.Status.Started.IsZero() {
		return b.Status.Started
	}
	return &b.CreationTimestamp
}

// WriteList writes them as a table, with their namespaces where they are of several,
// and with more columns where wide.
func WriteList(w io.Writer, list []api.Backup, namespaces, wide bool, now time.Time) error {
	head := []string{"NAME", "PHASE", "TYPE", "PODS", "SIZE", "FINISHED", "VERIFIED", "AGE"}
	if namespaces {
		head = append([]string{"NAMESPACE"}, head...)
	}
	if wide {
		head = append(head, "TOOK", "SCHEDULE", "POLICY", "NAME IN STORAGE", "MESSAGE")
	}
	rows := [][]string{head}
	for i := range list {
		b := &list[i]
		s := &b.Status
		row := []string{b.Name, ask.OrNone(phaseOf(b)), ask.OrNone(string(typeOf(b))), ask.OrNone(s.Progress.Pods), sizeOf(s.Bytes),
			ask.Age(s.Finished, now), ask.OrNone(verified(b)), ask.Age(begun(b), now)}
		if namespaces {
			row = append([]string{b.Namespace}, row...)
		}
		if wide {
			row = append(row, ask.OrNone(ask.Took(s.Started, s.Finished, now)), ask.OrNone(b.Labels[api.LabelSchedule]), policyOf(b),
				ask.OrNone(s.Name), ask.OrNone(s.Message))
		}
		rows = append(rows, row)
	}
	return ask.Table(w, rows)
}

// phaseOf is the phase, and that it is suspended where that is why nothing happens, or
// asked to be cancelled.
func phaseOf(b *api.Backup) string {
	phase := string(b.Status.Phase)
	switch {
	case b.Status.Phase.Final():
	case b.Spec.Cancel && !b.Found():
		phase = strings.TrimPrefix(phase+",Cancelling", ",")
	case b.Spec.Suspend:
		phase = strings.TrimPrefix(phase+",Suspended", ",")
	}
	return phase
}

// typeOf is the type as the storage has it, or as it was asked for.
func typeOf(b *api.Backup) api.BackupType {
	switch {
	case b.Status.Type != "":
		return b.Status.Type
	case b.Found():
		return ""
	}
	return b.Spec.TypeOrDefault()
}

func verified(b *api.Backup) string {
	if b.Status.Verified == nil {
		return ""
	}
	return string(b.Status.Verified.Result)
}

// policyOf is what becomes of the data when the object is deleted, in a word.
func policyOf(b *api.Backup) string {
	switch {
	case b.Spec.Pinned:
		return "Pinned"
	case b.Keeps():
		return string(api.DeletionKeep)
	}
	return string(api.DeletionDelete)
}

func sizeOf(bytes int64) string {
	if bytes == 0 {
		return ask.None
	}
	return ask.Size(bytes)
}

// path is the Backup as commands take it.
func path(b *api.Backup) string { return fmt.Sprintf("%s -n %s", b.Name, b.Namespace) }
