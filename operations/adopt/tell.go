package adopt

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/telling"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of the events, a closed set: on the pod.
const (
	eventAdopted = "Adopted"
	eventNot     = "NotAdopted"
	eventFailing = "AdoptionFailing"
	eventEnded   = "AdoptionEnded"
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
			"%s: annotation %s asks for it no longer: its containers stay until the pod is created anew, and none is added", ReasonNotAsked, api.AnnotationAdopt))
	case !m.asked:
	case one.reason == ReasonExhausted:
		c.say(one, corev1.EventTypeWarning, eventEnded, string(ReasonExhausted), fmt.Sprintf("%s: %s", ReasonExhausted, one.text))
	case one.reason.Wanted():
		c.say(one, corev1.EventTypeWarning, eventNot, string(one.reason), fmt.Sprintf("%s: %s", one.reason, one.text))
	case one.step.State == StateWaiting && one.step.Text != "":
		c.say(one, corev1.EventTypeWarning, eventFailing, one.step.Text[:min(len(one.step.Text), 80)], one.step.Text)
	case !has && one.reason != "" && itself:
		c.say(one, corev1.EventTypeNormal, eventNot, string(one.reason), fmt.Sprintf("%s: %s", one.reason, one.text))
	case one.step.State == StateAdopted || one.step.State == StateAdopting:
		clear(m.told) // what comes after is another story
	}
}

// say writes an event on the pod, where key says that it is another than the one before.
func (c *controller) say(one *candidate, kind, event, key, note string) {
	if one.memory.told[event] == key {
		return
	}
	one.memory.told[event] = key
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: one.pod.Namespace, Name: one.pod.Name, UID: one.pod.UID}
	c.events.Eventf(about, nil, kind, event, telling.Action("Adopt", note), "%s", workload.Clip(note, noteLimit))
}
