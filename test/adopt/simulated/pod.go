package simulated

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
)

// pod is a pod that is bound to a node.
type pod struct {
	object  *corev1.Pod
	from    time.Time
	address string
	grafted map[string]*container // the ephemeral containers, by name
	said    string                // the status as it was written last
	ready   bool
}

// advance goes on with the ephemeral containers.
func (p *pod) advance(now time.Time, script Script) {
	for i := range p.object.Spec.EphemeralContainers {
		c := &p.object.Spec.EphemeralContainers[i]
		known := p.grafted[c.Name]
		if known == nil {
			known = &container{seen: now}
			p.grafted[c.Name] = known
		}
		play := script(p.object, c)
		if takers := takers(p.object, c); takers != nil && play.Runs == 0 {
			// Having brought what they wait for, it ends.
			if p.taken(now, takers) {
				play.Runs, play.Exit = time.Nanosecond, 0
			}
		}
		known.advance(now, play)
	}
}

// hold is how long the agent's binary takes to be taken by a container that runs.
const hold = 20 * time.Millisecond

// taken tells whether all containers of these names have taken the binary, or did once.
func (p *pod) taken(now time.Time, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		c := p.grafted[name]
		return c == nil || c.from.IsZero() || now.Before(c.from.Add(hold))
	})
}

// takers are the names of the containers that a container brings the agent's binary to;
// nil where it brings none.
func takers(object *corev1.Pod, c *corev1.EphemeralContainer) (names []string) {
	for _, part := range adopted.Parts(object) {
		if part.Container.Name == c.Name {
			for _, taker := range strings.Fields(part.Env(patches.EnvAdoptedTakers)) {
				role, number, _ := strings.Cut(taker, "-")
				names = append(names, patches.Role(role).Container()+"-"+number)
			}
		}
	}
	return names
}

// status is what the kubelet says of the pod.
func (p *pod) status(clock Clock) corev1.PodStatus {
	from := new(clock.at(p.from)).Rfc3339Copy()
	s := corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "127.0.0.1", PodIP: p.address,
		PodIPs: []corev1.PodIP{{IP: p.address}}, StartTime: &from, QOSClass: p.object.Status.QOSClass}
	runs := func(c *corev1.Container) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: "simulated://" + c.Name, Ready: p.ready,
			Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: from}}}
	}
	for i := range p.object.Spec.InitContainers {
		s.InitContainerStatuses = append(s.InitContainerStatuses, runs(&p.object.Spec.InitContainers[i]))
	}
	for i := range p.object.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, runs(&p.object.Spec.Containers[i]))
	}
	for i := range p.object.Spec.EphemeralContainers {
		c := &p.object.Spec.EphemeralContainers[i]
		if known := p.grafted[c.Name]; known != nil {
			s.EphemeralContainerStatuses = append(s.EphemeralContainerStatuses, known.status(c.Name, c.Image, clock))
		}
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		condition := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: from}
		if !p.ready && (kind == corev1.PodReady || kind == corev1.ContainersReady) {
			condition.Status = corev1.ConditionFalse
		}
		s.Conditions = append(s.Conditions, condition)
	}
	return s
}
