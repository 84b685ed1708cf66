// Package adopted reads what adoption (operations/adopt) has put on a pod. It is pure.
//
//	adopted.go        the containers, and how they do
//	view.go           the pod as if it had been injected
//	viewcontainer.go  its containers
//
// The state of an adoption is all on the pod: which containers were added when, by their
// variables (patches/adoptnames.go), and what became of them, by their statuses.
package adopted

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/patches"
)

// Part is a container that adoption has put on a pod.
type Part struct {
	Role      patches.Role
	Number    int
	Container *corev1.EphemeralContainer
	Status    *corev1.ContainerStatus // nil where the kubelet has said nothing yet
}

// State is how a part does.
type State string

// The states.
const (
	Unknown State = "unknown" // nothing was heard of it
	Waiting State = "waiting" // for its image, for a Secret
	Running State = "running"
	Ended   State = "ended"
)

// State tells how the part does.
func (p *Part) State() State {
	switch {
	case p.Status == nil:
		return Unknown
	case p.Status.State.Running != nil:
		return Running
	case p.Status.State.Terminated != nil:
		return Ended
	case p.Status.State.Waiting != nil:
		return Waiting
	}
	return Unknown
}

// Done tells whether the part has ended with status 0, as one that has nothing more to do.
func (p *Part) Done() bool { return p.State() == Ended && p.Status.State.Terminated.ExitCode == 0 }

// Added is when the container was added; zero where that cannot be read.
func (p *Part) Added() time.Time {
	at, err := time.Parse(time.RFC3339, p.Env(patches.EnvAdoptedAt))
	if err != nil {
		return time.Time{}
	}
	return at
}

// Env is the value of a variable; of entries of a name the last one counts.
func (p *Part) Env(name string) (value string) {
	for i := range p.Container.Env {
		if p.Container.Env[i].Name == name {
			value = p.Container.Env[i].Value
		}
	}
	return value
}

// Is tells whether a pod has containers of adoption.
func Is(pod *corev1.Pod) bool {
	for i := range pod.Spec.EphemeralContainers {
		if _, ok := part(&pod.Spec.EphemeralContainers[i]); ok {
			return true
		}
	}
	return false
}

// Parts lists them by number. What somebody else has given such a name, without our
// variables, is none.
func Parts(pod *corev1.Pod) (parts []Part) {
	for i := range pod.Spec.EphemeralContainers {
		p, ok := part(&pod.Spec.EphemeralContainers[i])
		if !ok {
			continue
		}
		for j := range pod.Status.EphemeralContainerStatuses {
			if s := &pod.Status.EphemeralContainerStatuses[j]; s.Name == p.Container.Name {
				p.Status = s
			}
		}
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b Part) int { return cmp.Compare(a.Number, b.Number) })
	return parts
}

// Newest is the part of a role with the highest number; nil where there is none.
func Newest(parts []Part, role patches.Role) *Part {
	for i := range slices.Backward(parts) {
		if parts[i].Role == role {
			return &parts[i]
		}
	}
	return nil
}

// Serving is the newest part by which the controllers ask the pod: Medusa's, or of Anna the
// agent's; nil for none.
func Serving(parts []Part) *Part {
	if p := Newest(parts, patches.RoleMedusa); p != nil {
		return p
	}
	for i := range slices.Backward(parts) {
		if parts[i].Role == patches.RoleAgent && parts[i].Env(patches.EnvNodePort) != "" {
			return &parts[i]
		}
	}
	return nil
}

// part reads a container's role and number from its name and variable, which have to agree.
func part(c *corev1.EphemeralContainer) (Part, bool) {
	p := Part{Container: c}
	number := p.Env(patches.EnvAdopted)
	if number == "" {
		return Part{}, false
	}
	for _, role := range patches.Roles {
		if rest, ok := strings.CutPrefix(c.Name, role.Container()+"-"); ok && rest == number {
			n, err := strconv.Atoi(number)
			p.Role, p.Number = role, n
			return p, err == nil && n > 0
		}
	}
	return Part{}, false
}
