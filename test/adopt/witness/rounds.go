package witness

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
)

// added looks at the containers that a version has and the last one had not.
func (w *Witness) added(p *pod, object *corev1.Pod, at time.Time) {
	var before []corev1.EphemeralContainer
	if p.last != nil {
		before = p.last.Spec.EphemeralContainers
	}
	now := object.Spec.EphemeralContainers
	if len(now) < len(before) || !equality.Semantic.DeepEqual(now[:len(before)], before) {
		w.fault(object, "ephemeral containers were changed or removed")
		return
	}
	had := 0
	if p.last != nil {
		had = len(adopted.Parts(p.last))
	}
	parts := adopted.Parts(object) // by number, so that what is new comes last
	if len(parts) == had {
		return
	}
	fresh := parts[min(had, len(parts)):]
	for _, part := range fresh {
		if part.Number != p.number+1 {
			w.fault(object, "container %s comes after number %d", part.Container.Name, p.number)
		}
		p.number = part.Number
	}
	added := w.when(object, fresh, at)
	if p.number > ContainersPerPod {
		w.fault(object, "%d containers, at most %d are allowed", p.number, ContainersPerPod)
	}
	if why := w.allows(object); why != "" {
		w.fault(object, "was given %d containers: %s", len(fresh), why)
	}
	if len(p.rounds) > 0 {
		w.due(p, object, fresh)
		w.waited(p, object, added)
	}
	p.rounds = append(p.rounds, added)
	p.since, p.adopting = at, true
	w.daily(p, object, added)
}

// when is when a round was added, as its containers say: with a clock of the controller's
// that is the kubelet's, too. It must be about now.
func (w *Witness) when(object *corev1.Pod, fresh []adopted.Part, at time.Time) time.Time {
	added := fresh[0].Added()
	for i := range fresh {
		if !fresh[i].Added().Equal(added) {
			w.fault(object, "the containers of a round say that they were added at %s and at %s", added, fresh[i].Added())
		}
	}
	if off := at.Sub(added).Abs(); w.limits.Off > 0 && off > w.limits.Off {
		w.fault(object, "container %s says that it was added at %s, which is %s off", fresh[0].Container.Name, added, off)
	}
	return added
}

// due looks at whether a round was due, and each part of it: one of its role has ended,
// or it is one that only brings the binary. Where that failed to be brought, nobody knows
// who has it, and all may be added once more.
func (w *Witness) due(p *pod, object *corev1.Pod, fresh []adopted.Part) {
	before := adopted.Parts(p.last)
	ended := func(role patches.Role) bool {
		old := adopted.Newest(before, role)
		return old == nil || old.State() == adopted.Ended && !old.Done()
	}
	if !slices.ContainsFunc(roles(before), func(role patches.Role) bool { return ended(role) || gone(before, role) }) {
		if p.renews == 0 {
			w.fault(object, "a round of %d containers from %s on was not due: none of those before has ended", len(fresh), fresh[0].Container.Name)
			return
		}
		p.renews--
		return
	}
	if ended(patches.RoleAgent) {
		return
	}
	for i := range fresh {
		if role := fresh[i].Role; !brings(&fresh[i]) && !ended(role) && !gone(before, role) && p.renews == 0 {
			w.fault(object, "container %s was added beside one of its role that has not ended", fresh[i].Container.Name)
		}
	}
}

// gone tells whether a part that is to go on has ended, be it with status 0.
func gone(parts []adopted.Part, role patches.Role) bool {
	p := adopted.Newest(parts, role)
	return p != nil && !brings(p) && p.State() == adopted.Ended
}

// second is what times are written to.
const second = time.Second

// waited looks at the time since a part of the last round has ended: the first that did,
// as nobody says which of them is counted from.
func (w *Witness) waited(p *pod, object *corev1.Pod, added time.Time) {
	within := 0 // rounds of the last day, which this one comes after
	for _, t := range p.rounds {
		if w.limits.Day == 0 || added.Sub(t) < w.limits.Day {
			within++
		}
	}
	ended := firstEnd(adopted.Parts(p.last))
	if len(w.limits.Backoff) == 0 || within == 0 || ended.IsZero() {
		return
	}
	least := w.limits.Backoff[min(within, len(w.limits.Backoff))-1]
	if since := added.Sub(ended); since < least-second {
		w.fault(object, "round %d came %s after a container had ended, at least %s have to pass", len(p.rounds)+1, since, least)
	}
}

// firstEnd is when the first of the newest parts ended that was not to; zero where none
// did.
func firstEnd(parts []adopted.Part) (first time.Time) {
	for _, role := range roles(parts) {
		p := adopted.Newest(parts, role)
		if p.State() != adopted.Ended || brings(p) && p.Done() {
			continue
		}
		if at := p.Status.State.Terminated.FinishedAt.Time; first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// daily looks at the number of rounds within a day.
func (w *Witness) daily(p *pod, object *corev1.Pod, added time.Time) {
	if w.limits.PerDay == 0 {
		return
	}
	within := 0
	for _, t := range p.rounds {
		if w.limits.Day == 0 || added.Sub(t) < w.limits.Day-second {
			within++
		}
	}
	if within > w.limits.PerDay {
		w.fault(object, "%d rounds within %s, at most %d are allowed", within, w.limits.Day, w.limits.PerDay)
	}
}
