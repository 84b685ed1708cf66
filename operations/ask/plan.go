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

// Plan has a Restore planned and not done, and gives it as it was planned. Its
// object is gone afterwards, whatever happens; with an error the last state that was
// seen is given, if any. Waits tells why it is not planned
// yet, each time that changes.
func Plan(ctx context.Context, c client.WithWatch, restore *api.Restore, waits func(string)) (planned *api.Restore, err error) {
	dry := restore.DeepCopy()
	dry.Spec.DryRun = true
	dry.Name = dryName(restore.Name)
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
	follower := Follower{Client: c, Namespace: dry.Namespace, Name: dry.Name, Note: waits, Seen: func(r *api.Restore) bool {
		planned = r
		if r.Status.Phase.Final() {
			return true
		}
		if r.Status.Message != told {
			told = r.Status.Message
			waits(string(r.Status.Phase) + ": " + clean(told))
		}
		return false
	}}
	err = follower.Follow(ctx)
	return planned, err
}

// dryName is the name of the object that a plan is made with.
func dryName(name string) string {
	const end = "-plan"
	return strings.TrimRight(name[:min(len(name), 253-len(end)-2)], "-.") + end
}

func remove(ctx context.Context, c client.Client, dry *api.Restore) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removal)
	defer cancel()
	if dry.UID == "" { // the answer was lost: is there one, and is it of a dry run?
		if err := c.Get(ctx, client.ObjectKeyFromObject(dry), dry); err != nil || !dry.Spec.DryRun {
			return client.IgnoreNotFound(err)
		}
	}
	err := c.Delete(ctx, dry, client.Preconditions{UID: &dry.UID})
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("removing the dry run's object (kubectl delete restores.%s %s -n %s does): %w", api.Group, dry.Name, dry.Namespace,
		Explain(err, "delete", restores, dry.Namespace, dry.Name))
}

// WritePlan writes what was planned.
func WritePlan(w io.Writer, r *api.Restore, now time.Time) error {
	s := &r.Status
	var text strings.Builder
	if s.Phase == api.RestoreFailed {
		fmt.Fprintf(&text, "This cannot be restored, and nothing was touched: %s\n", clean(s.Message))
	} else {
		fmt.Fprintf(&text, "Plan for namespace %s: %s\n", r.Namespace, what(r))
		if !s.BackupFinished.IsZero() {
			fmt.Fprintf(&text, "The backup was made %s.\n", moment(s.BackupFinished, now))
		}
		if s.Message != "" {
			text.WriteString(clean(s.Message) + "\n")
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
		bytes := none
		if pod.BytesTotal > 0 {
			bytes = size(pod.BytesTotal)
		}
		total += pod.BytesTotal
		row := []string{pod.Name, orNone(string(pod.Action)), orNone(pod.Node), bytes}
		if remote {
			row = append(row, tokens(&pod))
		}
		rows = append(rows, append(row, clean(pod.Message)))
	}
	if err := table(w, trimmed(rows)); err != nil {
		return err
	}
	all := plural(len(s.Pods), "pod")
	if total > 0 {
		all += ", " + size(total) + " in all"
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
		return "back to the data from before " + clean(r.Spec.Undo)
	}
	text := "backup " + clean(s.Backup)
	if s.Backup == "" {
		text = "backup " + clean(r.Spec.Backup)
	} else if r.Spec.Backup != s.Backup {
		text += fmt.Sprintf(" (asked for: %s)", clean(r.Spec.Backup))
	}
	if s.Prefix != "" {
		text += " of prefix " + clean(s.Prefix)
	}
	if r.Spec.Mode == api.Remote {
		text += ", as other nodes (mode Remote)"
	}
	return text
}

func byName(list []api.PodRestore) []api.PodRestore {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b api.PodRestore) int { return Compare(a.Name, b.Name) })
	return list
}

// trimmed leaves out the last column where nothing is in it.
func trimmed(rows [][]string) [][]string {
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

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
