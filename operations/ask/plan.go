package ask

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// removal is how long the removal of a dry run's object may take, after Ctrl-C too.
const removal = 10 * time.Second

// Plan has a Restore planned and not done, and gives it as it was planned, as
// Rehearse does.
func Plan(ctx context.Context, c client.WithWatch, restore *api.Restore, waits func(string)) (*api.Restore, error) {
	dry := restore.DeepCopy()
	dry.Spec.DryRun = true
	return Rehearse(ctx, c, dry, waits)
}

// Rehearse makes a dry run of a Restore or a Backup and gives it as it was planned.
// The object is gone afterwards, whatever happens; with an error the last state that
// was seen is given, if any. Waits tells why it is not planned yet, each time that
// changes.
func Rehearse[O any, P object[O]](ctx context.Context, c client.WithWatch, dry P, waits func(string)) (planned P, err error) {
	dry.SetName(dryName(dry.GetName()))
	// It is removed even if the answer to its making was lost.
	err = Create(ctx, c, dry, true)
	if err == nil || ctx.Err() != nil {
		defer func() {
			if gone := remove(ctx, c, dry); gone != nil && err == nil {
				err = gone
			}
		}()
	}
	if err != nil {
		return nil, err
	}
	told := ""
	follower := Following[O, P]{Client: c, Namespace: dry.GetNamespace(), Name: dry.GetName(), Note: waits, Seen: func(now P) bool {
		planned = now
		is := lookAt(now)
		if is.final {
			return true
		}
		if is.message != told {
			told = is.message
			waits(is.phase + ": " + Clean(told))
		}
		return false
	}}
	err = follower.Follow(ctx)
	return planned, err
}

// dryName is the name of the object that a plan is made with.
func dryName(name string) string {
	const end = "-plan"
	const most = nameLength // of a Backup's name; a Restore's may be longer
	return strings.TrimRight(name[:min(len(name), most-len(end)-2)], "-.") + end
}

func remove(ctx context.Context, c client.Client, dry client.Object) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removal)
	defer cancel()
	if dry.GetUID() == "" { // the answer was lost: is there one, and is it of a dry run?
		if err := c.Get(ctx, client.ObjectKeyFromObject(dry), dry); err != nil || !lookAt(dry).dryRun {
			return client.IgnoreNotFound(err)
		}
	}
	is, uid := lookAt(dry), dry.GetUID()
	err := c.Delete(ctx, dry, client.Preconditions{UID: &uid})
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("removing the dry run's object (kubectl delete %s %s -n %s does): %w", is.resource, dry.GetName(), dry.GetNamespace(),
		Explain(err, "delete", is.resource, dry.GetNamespace(), dry.GetName()))
}

// WritePlan writes what was planned.
func WritePlan(w io.Writer, r *api.Restore, now time.Time) error {
	s := &r.Status
	var text strings.Builder
	if s.Phase == api.RestoreFailed {
		fmt.Fprintf(&text, "This cannot be restored, and nothing was touched: %s\n", Clean(s.Message))
	} else {
		fmt.Fprintf(&text, "Plan for namespace %s: %s\n", r.Namespace, what(r))
		if !s.BackupFinished.IsZero() {
			fmt.Fprintf(&text, "The backup was made %s.\n", Moment(s.BackupFinished, now))
		}
		if s.Message != "" {
			text.WriteString(Clean(s.Message) + "\n")
		}
	}
	if len(s.Pods) > 0 {
		text.WriteString("\n")
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	if len(s.Pods) == 0 {
		return nil
	}
	remote := r.Spec.Mode == api.Remote
	head := []string{"POD", "ACTION", "NODE OF THE BACKUP", "BYTES"}
	if remote {
		head = append(head, "TOKENS")
	}
	rows := [][]string{append(head, "NOTE")}
	var total int64
	for _, pod := range byName(s.Pods) {
		bytes := None
		if pod.BytesTotal > 0 {
			bytes = Size(pod.BytesTotal)
		}
		total += pod.BytesTotal
		row := []string{pod.Name, OrNone(string(pod.Action)), OrNone(pod.Node), bytes}
		if remote {
			row = append(row, tokens(&pod))
		}
		rows = append(rows, append(row, Clean(pod.Message)))
	}
	if err := Table(w, Trimmed(rows)); err != nil {
		return err
	}
	all := Plural(len(s.Pods), "pod")
	if total > 0 {
		all += ", " + Size(total) + " in all"
	}
	_, err := fmt.Fprintf(w, "\n%s\n", all)
	return err
}

func tokens(pod *api.PodRestore) string {
	if len(pod.Tokens) == 0 {
		return "new ones"
	}
	return fmt.Sprint(len(pod.Tokens))
}

// what says in a line what the Restore does.
func what(r *api.Restore) string {
	s := &r.Status
	if r.Spec.Undo != "" {
		return "back to the data from before " + Clean(r.Spec.Undo)
	}
	text := "backup " + Clean(s.Backup)
	if s.Backup == "" {
		text = "backup " + Clean(r.Spec.Backup)
	} else if r.Spec.Backup != s.Backup {
		text += fmt.Sprintf(" (asked for: %s)", Clean(r.Spec.Backup))
	}
	if s.Prefix != "" {
		text += " of prefix " + Clean(s.Prefix)
	}
	switch r.Spec.Mode {
	case api.Remote:
		text += ", as other nodes (mode Remote)"
	case api.Merge:
		text += ", into the cluster as it runs (mode Merge)"
	}
	return text
}

func byName(list []api.PodRestore) []api.PodRestore {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b api.PodRestore) int { return Compare(a.Name, b.Name) })
	return list
}

// Trimmed leaves out the last column where nothing is in it.
func Trimmed(rows [][]string) [][]string {
	last := len(rows[0]) - 1
	for _, row := range rows[1:] {
		if row[last] != "" {
			return rows
		}
	}
	for i := range rows {
		rows[i] = rows[i][:last]
	}
	return rows
}

// Plural is a number of things whose word takes an s.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
