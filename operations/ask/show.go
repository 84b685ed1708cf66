package ask

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Show writes one Restore in full: what was asked for, how far it is, and what to
// do next. The other Restores of the namespace, where they can be read, tell what is
// still kept from before.
func Show(w io.Writer, r *api.Restore, others []api.Restore, now time.Time) error {
	replaced := Replaced(r, others)
	if err := Table(w, facts(r, now)); err != nil {
		return err
	}
	volumes := Volumes(r)
	if len(volumes) > 0 {
		if _, err := fmt.Fprintf(w, "\nVolumes, as the cancellation left them:\n  %s\n", strings.Join(volumes, "\n  ")); err != nil {
			return fmt.Errorf("writing of the volumes: %w", err)
		}
	}
	if len(r.Status.Pods) > 0 {
		if err := Section(w, "Pods:", podRows(r, replaced, len(volumes) == 0, now)); err != nil {
			return err
		}
	}
	if len(r.Status.Conditions) > 0 {
		rows := [][]string{{"TYPE", "STATUS", "REASON", "AGE", "MESSAGE"}}
		for _, c := range r.Status.Conditions {
			rows = append(rows, []string{c.Type, string(c.Status), OrNone(c.Reason), Age(&c.LastTransitionTime, now), Clean(c.Message)})
		}
		if err := Section(w, "Conditions:", Trimmed(rows)); err != nil {
			return err
		}
	}
	next := Next(r, replaced, now)
	if len(next) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nWhat to do next:\n  %s\n", strings.Join(next, "\n  "))
	return err
}

// Section writes a table below a title.
func Section(w io.Writer, title string, rows [][]string) error {
	if _, err := fmt.Fprintf(w, "\n%s\n", title); err != nil {
		return err
	}
	for i := range rows {
		rows[i][0] = "  " + rows[i][0]
	}
	return Table(w, rows)
}

// facts are the lines above the tables; those that say nothing are left out.
func facts(r *api.Restore, now time.Time) [][]string {
	s := &r.Status
	var rows [][]string
	add := func(key, value string) {
		if value != "" {
			rows = append(rows, []string{key + ":", value})
		}
	}
	at := func(key string, t *metav1.Time) {
		if !t.IsZero() {
			add(key, Moment(t, now))
		}
	}
	add("Name", r.Name)
	add("Namespace", r.Namespace)
	phase := phaseOf(r)
	if phase == "" {
		phase = "not seen by a controller yet"
	}
	add("Phase", phase)
	add("Message", Clean(s.Message))
	add("Progress", progressOf(r))
	add("What", what(r))
	at("Backup made", s.BackupFinished)
	add("Mode", string(r.Spec.Mode))
	add("Source", source(r))
	add("Asked for", asked(r))
	add("Parallel", parallel(r.Spec.Parallel))
	add("No backup", string(r.Spec.WhenNoBackup))
	add("Previous data", string(r.Spec.KeepPrevious))
	if r.Spec.DryRun {
		add("Dry run", "yes: nothing is done")
	}
	at("Created", &r.CreationTimestamp)
	at("Accepted", s.Started)
	if d := r.Spec.Deadline; d != nil {
		text := d.Duration.String()
		if !s.Started.IsZero() && s.Finished.IsZero() {
			end := metav1.NewTime(s.Started.Add(d.Duration))
			text += ", until " + end.UTC().Format(time.RFC3339)
		}
		add("Deadline", text)
	}
	at("Finished", s.Finished)
	add("Took", Took(s.Started, s.Finished, now))
	add("Stopped pods", strings.Join(s.Pending, ", "))
	add("ID", Clean(s.ID))
	return rows
}

// progressIn is how far it is; nothing for what ended before a pod was touched.
func progressIn(r *api.Restore) api.RestoreProgress {
	if untouched(r) {
		return api.RestoreProgress{}
	}
	return r.Status.Progress
}

func progressOf(r *api.Restore) string {
	p := progressIn(r)
	switch {
	case p.Pods == "" && r.Status.Phase == api.RestoreCancelled:
		return "-"
	case p.Pods == "":
		return ""
	}
	text := p.Pods + " pods"
	if p.Data != "" {
		text += ", " + p.Data + " of the data"
	}
	return text
}

func parallel(n int32) string {
	if n == 0 {
		return ""
	}
	return Plural(int(n), "pod") + " at a time"
}

func asked(r *api.Restore) string {
	if s := r.Spec.Pods.Selector; s != nil {
		return "pods with the labels " + Clean(metav1.FormatLabelSelector(s))
	}
	names := slices.Clone(r.Spec.Pods.Names)
	slices.SortFunc(names, Compare)
	return Clean(strings.Join(names, ", "))
}

func source(r *api.Restore) string {
	s := r.Spec.Source
	if s == nil {
		return ""
	}
	var parts []string
	if s.Prefix != nil {
		parts = append(parts, fmt.Sprintf("prefix %q", Clean(*s.Prefix)))
	}
	if s.Cluster != "" {
		parts = append(parts, "cluster "+Clean(s.Cluster))
	}
	for _, pod := range slices.SortedFunc(maps.Keys(s.Nodes), Compare) {
		parts = append(parts, Clean(pod+" from "+s.Nodes[pod]))
	}
	return strings.Join(parts, ", ")
}

// podRows have the pods' messages unless these were shown already.
func podRows(r *api.Restore, replaced map[string]string, messages bool, now time.Time) [][]string {
	rows := [][]string{{"POD", "PHASE", "ACTION", "NODE", "DATA", "TOOK", "FAILED", "PREVIOUS", "MESSAGE"}}
	for _, pod := range byName(r.Status.Pods) {
		previous, message := None, ""
		if messages {
			message = Clean(pod.Message)
		}
		switch {
		case r.Spec.Mode == api.Merge: // which replaces nothing
		case pod.MayHavePrevious() && replaced[pod.Name] != "":
			previous = "replaced"
		case pod.Previous:
			previous = "kept"
		case r.Status.Phase.Final() && pod.MayHavePrevious():
			previous = "perhaps" // the volume knows
		}
		rows = append(rows, []string{pod.Name, OrNone(string(pod.Phase)), OrNone(string(pod.Action)), OrNone(pod.Node), OrNone(amount(&pod, percentOf(&pod))),
			OrNone(Took(pod.Started, pod.Finished, now)), fmt.Sprint(pod.Failures), previous, message})
	}
	return Trimmed(rows)
}
