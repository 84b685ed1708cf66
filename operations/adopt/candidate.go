package adopt

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// candidate is a pod that was adopted, or is to be.
type candidate struct {
	pod       *corev1.Pod // slim
	namespace *metav1.PartialObjectMetadata
	memory    *memory
	by        fingerprint
	facts     Pod
	step      Step

	reason Reason // why nothing is added; empty where nothing should be, or it is
	text   string
}

// passes are the reasons that go away by themselves.
var passes = []Reason{ReasonNotRunning, ReasonNotReady, ReasonNodePressure, ReasonNodeNotReady, ReasonNoPair, ReasonWaits, ReasonBackingOff, ReasonRestorePending}

// state is that of the pod's containers or, where it has none, whether it waits for them.
func (c *candidate) state() State {
	if c.step.State == StateNone && slices.Contains(passes, c.reason) {
		return StateWaiting
	}
	return c.step.State
}

func (c *candidate) refuse(reason Reason, text string) { c.reason, c.text = reason, text }

// busy is the pod as one that is being adopted; nil for one that is not.
func (c *candidate) busy() *Busy {
	unsure := c.step.Do == DoAdd && c.memory.unsure.After(c.facts.Now)
	if !unsure && (!c.facts.Asked || c.step.State == StateNone || c.step.State == StateAdopted) {
		return nil
	}
	b := c.seat()
	if unsure {
		b.Since = c.facts.Now
	}
	for _, r := range Rounds(c.facts.Parts) {
		b.Since = later(b.Since, r.at(c.facts.Now))
	}
	return &b
}

func (c *candidate) seat() Busy {
	return Busy{Pod: client.ObjectKeyFromObject(c.pod), Workload: workloadOf(c.pod), Node: c.pod.Spec.NodeName}
}

// inTurn has pods that lost a container go first, then by name: of a workload always the
// same one is the first.
func inTurn(all []*candidate) []*candidate {
	sorted := slices.Clone(all)
	first := func(c *candidate) int {
		if len(c.facts.Parts) > 0 {
			return 0
		}
		return 1
	}
	slices.SortFunc(sorted, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a.pod.Namespace, b.pod.Namespace),
			cmp.Compare(len(a.pod.Name), len(b.pod.Name)), cmp.Compare(a.pod.Name, b.pod.Name))
	})
	return sorted
}

// earliest is the next time at which one of the pods may need something; zero for none.
func earliest(all []*candidate) (at time.Time) {
	for _, c := range all {
		if u := c.step.Until; !u.IsZero() && (at.IsZero() || u.Before(at)) {
			at = u
		}
	}
	return at
}
