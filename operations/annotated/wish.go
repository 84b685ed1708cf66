package annotated

import (
	"fmt"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	wl "github.com/stategraft/stategraft/workload"
)

// wish is what the annotations ask for a cluster.
type wish struct {
	schedule string
	wide     bool  // it is the namespace that asks
	retain   int32 // 0 where nothing is said
	// refused says why it cannot be granted; then nothing is made, and what is there
	// stays as it is.
	refused *refusal
	bad     []fault // values that cannot be followed; as with a refusal
	// disagree says that pods ask for different things; the oldest one's counts.
	disagree string
}

// refusal is why a wish is not granted.
type refusal struct{ reason, text string }

// The reasons of the events, a closed set: on the workload.
const (
	eventMade     = "BackupScheduleMade"
	eventChanged  = "BackupScheduleChanged"
	eventDeleted  = "BackupScheduleDeleted"
	eventDisagree = "BackupAnnotationsDisagree"

	eventBad          = "BackupAnnotationBad"
	eventNotSupported = "BackupNotSupported" // of a database of this kind
	eventFleeting     = "BackupPodsFleeting" // their names do not come back
	eventTaken        = "BackupScheduleNameTaken"
	eventNoSelector   = "BackupClusterNotSelectable"
	eventUnknown      = "BackupClusterNotKnown" // no sidecar answers
	eventRejected     = "BackupScheduleRejected"
)

// value is an annotation of a cluster: its oldest pod's that has it, or the namespace's.
type value struct {
	text     string
	where    string
	wide     bool
	disagree string
}

func (c cluster) value(key string, namespace map[string]string) (v value, ok bool) {
	for _, pod := range c.pods() {
		text, has := pod.Annotations[key]
		switch {
		case !has:
		case !ok:
			v, ok = value{text: text, where: "pod " + pod.Name}, true
		case text != v.text && v.disagree == "":
			v.disagree = fmt.Sprintf("annotation %s is %q on %s and %q on pod %s: what the oldest says counts", key, wl.Short(v.text), v.where, wl.Short(text), pod.Name)
		}
	}
	if ok {
		return v, true
	}
	text, ok := namespace[key]
	return value{text: text, where: "the namespace", wide: true}, ok
}

// wishOf reads what is asked for a cluster; asks is false where nothing is.
func wishOf(c cluster, namespace map[string]string) (w wish, asks bool) {
	when, asks := c.value(api.AnnotationBackupSchedule, namespace)
	if !asks {
		if c.backed() {
			w.bad = c.faults(namespace)
		}
		return w, false
	}
	w.schedule, w.wide, w.disagree = when.text, when.wide, when.disagree
	for _, member := range c {
		switch {
		case !member.stores() && when.wide:
			return w, false // not meant for it
		case !member.stores():
			w.refused = &refusal{eventNotSupported, fmt.Sprintf("annotation %s of %s: pods of kind %s like these keep no data of their own, so there is nothing to back up; annotate those that do", api.AnnotationBackupSchedule, when.where, member.kind)}
			return w, true
		case fleeting(member.owner):
			w.refused = &refusal{eventFleeting, fmt.Sprintf("annotation %s of %s: the pods of a %s have other names each time, so a backup of one is of no node that comes back; make a BackupSchedule with a selector, or have a StatefulSet make the pods",
				api.AnnotationBackupSchedule, when.where, member.owner.Kind)}
			return w, true
		}
	}
	if w.bad = c.faults(namespace); len(w.bad) > 0 {
		return w, true
	}
	many, ok := c.value(api.AnnotationRetain, namespace)
	if !ok {
		return w, true
	}
	if w.disagree == "" {
		w.disagree = many.disagree
	}
	w.retain, _ = api.ParseRetain(many.text) // it is good
	return w, true
}
