package ask

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// List reads the Restores of a namespace, or of all for none, the oldest first.
func List(ctx context.Context, c client.Reader, namespace string) (*api.RestoreList, error) {
	list := &api.RestoreList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, Explain(err, "list", restores, namespace, "")
	}
	if len(list.Items) == 0 {
		if gone := Within(ctx, c, namespace, errNone); !errors.Is(gone, errNone) {
			return nil, gone
		}
	}
	slices.SortStableFunc(list.Items, func(a, b api.Restore) int {
		if n := strings.Compare(a.Namespace, b.Namespace); n != 0 {
			return n
		}
		if n := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); n != 0 {
			return n
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list, nil
}

// Get reads one.
func Get(ctx context.Context, c client.Reader, namespace, name string) (*api.Restore, error) {
	restore := &api.Restore{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, restore); err != nil {
		return nil, Within(ctx, c, namespace, Explain(err, "get", restores, namespace, name))
	}
	return restore, nil
}

var errNone = errors.New("there are none")

// WriteList writes them as a table, with their namespaces where they are of
// several, and with more columns where wide.
func WriteList(w io.Writer, list []api.Restore, namespaces, wide bool, now time.Time) error {
	head := []string{"NAME", "BACKUP", "MODE", "PHASE", "PODS", "DATA", "AGE"}
	if namespaces {
		head = append([]string{"NAMESPACE"}, head...)
	}
	if wide {
		head = append(head, "TOOK", "PENDING", "MESSAGE")
	}
	rows := [][]string{head}
	for i := range list {
		r := &list[i]
		progress := progressIn(r)
		row := []string{r.Name, backupOf(r), OrNone(string(r.Spec.Mode)), OrNone(phaseOf(r)),
			OrNone(progress.Pods), OrNone(progress.Data), Age(&r.CreationTimestamp, now)}
		if namespaces {
			row = append([]string{r.Namespace}, row...)
		}
		if wide {
			row = append(row, OrNone(Took(r.Status.Started, r.Status.Finished, now)), OrNone(strings.Join(r.Status.Pending, ",")), OrNone(r.Status.Message))
		}
		rows = append(rows, row)
	}
	return Table(w, rows)
}

// phaseOf is the phase, and that it is suspended where that is why nothing happens.
func phaseOf(r *api.Restore) string {
	phase := string(r.Status.Phase)
	if r.Spec.Suspend && !r.Status.Phase.Final() {
		phase = strings.TrimPrefix(phase+",Suspended", ",")
	}
	return phase
}

// backupOf is what is restored, in a word.
func backupOf(r *api.Restore) string {
	switch {
	case r.Status.Backup != "":
		return Clean(r.Status.Backup)
	case r.Spec.Undo != "":
		return "undo:" + Clean(r.Spec.Undo)
	}
	return OrNone(r.Spec.Backup)
}
