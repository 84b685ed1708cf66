package adopt

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/scope"
	"github.com/stategraft/stategraft/operations/telling"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of the events, a closed set: on the pod.
const (
	eventAdopted = "Adopted"
	eventNot     = "NotAdopted"
	eventFailing = "AdoptionFailing"
	eventEnded   = "AdoptionEnded"
	eventBad     = "AdoptBadAnnotation" // on a namespace too
)

// noteLimit is less than an event's note may have (k8s.io/api/events/v1).
const noteLimit = 900

// tell says on the pod what its owner would want to know, once for each cause. A pod that asks
// by itself is told whatever it waits for: somebody does.
func (c *controller) tell(one *candidate) {
	m := one.memory
	was := m.asked
	m.asked = one.facts.Asked
	_, itself := one.pod.Annotations[api.AnnotationAdopt]
	switch has := len(one.facts.Parts) > 0; {
	case has && was && !m.asked:
		c.say(one, corev1.EventTypeNormal, eventEnded, string(ReasonNotAsked), fmt.Sprintf(
			"%s: %s: its containers stay until the pod is created anew, and none is added", ReasonNotAsked, c.unasked(one)))
	case !m.asked:
	case one.reason == ReasonExhausted:
		c.say(one, corev1.EventTypeWarning, eventEnded, fmt.Sprintf("%s %d", ReasonExhausted, len(one.facts.Parts)), fmt.Sprintf("%s: %s", ReasonExhausted, one.text))
	case one.reason.Wanted():
		c.say(one, corev1.EventTypeWarning, eventNot, string(one.reason), fmt.Sprintf("%s: %s", one.reason, one.text))
	case one.step.State == StateWaiting && one.step.Text != "":
		c.say(one, corev1.EventTypeWarning, eventFailing, one.step.Cause, one.step.Text)
	case !has && one.reason != "" && itself:
		c.say(one, corev1.EventTypeNormal, eventNot, string(one.reason), fmt.Sprintf("%s: %s", one.reason, one.text))
	case one.step.State == StateAdopted && one.reason == "":
		delete(m.told, eventFailing) // what comes after is another story
		delete(m.told, eventNot)
	}
}

// unasked says what of it is so that nobody asks for a pod's adoption.
func (c *controller) unasked(one *candidate) string {
	key, ns := api.AnnotationAdopt, one.namespace
	if !scope.Asks(ns, c.Namespace) {
		return fmt.Sprintf("namespace %s has no label %s=%s any more, which allows it", ns.Name, api.LabelInject, api.InjectEnabled)
	}
	if value, ok := one.pod.Annotations[key]; ok {
		return fmt.Sprintf("annotation %s of the pod is %q", key, workload.Short(value))
	}
	if value, ok := ns.Annotations[key]; ok {
		return fmt.Sprintf("annotation %s of namespace %s is %q", key, ns.Name, workload.Short(value))
	}
	return fmt.Sprintf("neither the pod nor namespace %s has annotation %s any more", ns.Name, key)
}

// sayAgain is how long after it an event is not written once more, though others were in
// between: what comes and goes would fill the cluster with events. They are kept for an hour
// (kube-apiserver --event-ttl).
const sayAgain = 10 * time.Minute

// told is what was said last, and when what was.
type told struct {
	last string
	at   map[string]time.Time
}

// say writes an event on the pod, where key says that it is another than the one before.
func (c *controller) say(one *candidate, kind, event, key, note string) {
	t := one.memory.told[event]
	if t == nil {
		t = &told{at: map[string]time.Time{}}
		one.memory.told[event] = t
	}
	now := c.Clock()
	if at, said := t.at[key]; t.last == key || said && now.Before(at.Add(sayAgain)) {
		return
	}
	maps.DeleteFunc(t.at, func(_ string, at time.Time) bool { return !now.Before(at.Add(sayAgain)) })
	t.last, t.at[key] = key, now
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: one.pod.Namespace, Name: one.pod.Name, UID: one.pod.UID}
	c.events.Eventf(about, nil, kind, event, telling.Action("Adopt", note), "%s", workload.Clip(note, noteLimit))
}
