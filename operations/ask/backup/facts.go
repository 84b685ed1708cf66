package backup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

// facts are the lines above the tables; those that say nothing are left out.
func facts(b *api.Backup, now time.Time) [][]string {
	s := &b.Status
	var rows [][]string
	add := func(key, value string) {
		if value != "" {
			rows = append(rows, []string{key + ":", value})
		}
	}
	at := func(key string, t *metav1.Time) {
		if !t.IsZero() {
			add(key, ask.Moment(t, now))
		}
	}
	add("Name", b.Name)
	add("Namespace", b.Namespace)
	phase := phaseOf(b)
	if phase == "" {
		phase = "not seen by a controller yet"
	}
	add("Phase", phase)
	add("Message", ask.Clean(s.Message))
	if s.Progress.Pods != "" {
		add("Progress", s.Progress.Pods+" pods")
	}
	if s.Bytes > 0 {
		add("Size", ask.Size(s.Bytes)+" in "+ask.Plural(int(s.Objects), "object"))
	}
	add("Type", string(typeOf(b)))
	add("Database", ask.Clean(s.Database))
	add("Schedule", ask.Clean(b.Labels[api.LabelSchedule]))
	add("Origin", origin(b))
	add("Name in storage", ask.Clean(InStorage(b)))
	add("Prefix", ask.Clean(prefixOf(b)))
	add("Asked for", asked(b))
	add("When deleted", kept(b))
	if b.Spec.DryRun {
		add("Dry run", "yes: nothing is done")
	}
	if !b.Found() {
		add("Parallel", parallel(b))
		at("Created", &b.CreationTimestamp)
	}
	at("Started", s.Started)
	if d := b.Spec.Timeout; d != nil && !b.Found() {
		text := d.Duration.String()
		if !s.Started.IsZero() && s.Finished.IsZero() {
			text += ", until " + s.Started.Add(d.Duration).UTC().Format(time.RFC3339)
		}
		add("Timeout", text)
	}
	at("Finished", s.Finished)
	add("Took", ask.Took(s.Started, s.Finished, now))
	at("Seen in storage", s.Listed)
	return rows
}

func origin(b *api.Backup) string {
	switch {
	case b.Found():
		return "found in the storage"
	case b.Status.Origin == api.BackupMade:
		return "made for this object"
	}
	return ""
}

// kept is what becomes of the data.
func kept(b *api.Backup) string {
	switch {
	case b.Spec.Pinned:
		return "the data stay: it is pinned, and no retention deletes it"
	case b.Keeps():
		return "the data stay in the storage (Keep)"
	}
	return "the data are deleted first (Delete)"
}

func parallel(b *api.Backup) string {
	if b.Spec.Parallel == 0 {
		return ""
	}
	return atATime(b)
}

func asked(b *api.Backup) string {
	p := b.Spec.Pods
	switch {
	case p == nil:
		return ""
	case p.Workload != nil:
		kind := p.Workload.Kind
		if kind == "" {
			kind = "StatefulSet"
		}
		return ask.Clean(fmt.Sprintf("the pods of %s %s", kind, p.Workload.Name))
	case p.Selector != nil:
		return "pods with the labels " + ask.Clean(metav1.FormatLabelSelector(p.Selector))
	}
	names := slices.Clone(p.Names)
	slices.SortFunc(names, ask.Compare)
	return ask.Clean(strings.Join(names, ", "))
}
