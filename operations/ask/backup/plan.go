package backup

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

// Plan has a Backup planned and not made, and gives it as it was planned, as
// ask.Rehearse does.
func Plan(ctx context.Context, c client.WithWatch, b *api.Backup, waits func(string)) (*api.Backup, error) {
	dry := b.DeepCopy()
	dry.Spec.DryRun = true
	dry.Spec.DeletionPolicy, dry.Spec.Pinned = "", false
	return ask.Rehearse(ctx, c, dry, waits)
}

// Whole tells whether what was planned would be of all its pods, where some that the plan
// lacks are given their sidecars before.
func Whole(planned *api.Backup, adopted []string) bool {
	lack := slices.DeleteFunc(lacking(planned), func(name string) bool { return slices.Contains(adopted, name) })
	return planned.Status.Phase == api.BackupPlanned && !refused(planned) && len(lack) == 0
}

// refused tells whether nothing could be planned, or what was would not be accepted.
func refused(planned *api.Backup) bool {
	s := &planned.Status
	return s.Phase == api.BackupFailed || s.Phase == api.BackupPlanned && (len(s.Pods) == 0 || strings.HasPrefix(s.Message, "it would be refused"))
}

// lacking are the pods that are not complete, and will not be.
func lacking(b *api.Backup) []string {
	var names []string
	for _, pod := range sorted(b.Status.Pods) {
		if pod.Phase == api.PodBackupFailed || pod.Phase == api.PodBackupGone {
			names = append(names, pod.Name)
		}
	}
	return names
}

// WritePlan writes what was planned.
func WritePlan(w io.Writer, b *api.Backup) error {
	s := &b.Status
	var text strings.Builder
	if refused(b) {
		fmt.Fprintf(&text, "This cannot be backed up: %s\n", ask.Clean(s.Message))
	} else {
		fmt.Fprintf(&text, "Plan for namespace %s: a %s backup of %s, %s, within %s\n",
			b.Namespace, typeOf(b), ask.Plural(len(s.Pods), "pod"), atATime(b), duration.HumanDuration(b.Spec.TimeoutOrDefault()))
		if s.Message != "" {
			text.WriteString(ask.Clean(s.Message) + "\n")
		}
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	if len(s.Pods) == 0 {
		return nil
	}
	rows := [][]string{{"  POD", "NODE", "PLAN", "NOTE"}}
	for _, pod := range sorted(s.Pods) {
		plan := "back up"
		if pod.Phase == api.PodBackupFailed || pod.Phase == api.PodBackupGone {
			plan = "cannot"
		}
		rows = append(rows, []string{"  " + pod.Name, ask.OrNone(pod.StorageNode()), plan, ask.Clean(pod.Message)})
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	if err := ask.Table(w, ask.Trimmed(rows)); err != nil {
		return err
	}
	if left := lacking(b); len(left) > 0 && s.Phase == api.BackupPlanned {
		_, err := fmt.Fprintf(w, "\nWithout %s it would not be complete, and no whole cluster could be restored from it.\n", shortened(left))
		return err
	}
	return nil
}

func atATime(b *api.Backup) string {
	if b.Spec.Parallel == 0 {
		return "all at once"
	}
	return ask.Plural(int(b.Spec.Parallel), "pod") + " at a time"
}
