package adopted

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/patches"
)

// View gives a pod as it would be if what adoption has put on it had been injected: of each
// role one part stands among the containers, and its status among theirs, under the injected
// container's name and with its ports, mounts and volumes. The ephemeral containers stay.
// A pod on which nothing is adopted, or that has such containers already, is given as it is;
// of another the metadata and what is not added to are shared.
//
// Of a role the newest part that runs is taken, for an older one goes on serving until the
// newer takes over; where none runs, the newest. Of the agent of Cassandra, which ends when
// it has brought the others' binary, one that did counts as running.
func View(pod *corev1.Pod) *corev1.Pod {
	parts := Parts(pod)
	if len(parts) == 0 {
		return pod
	}
	g := &graft{older: map[patches.Role]int32{}}
	g.parts = chosen(parts)
	for role := range g.parts {
		if has(pod.Spec.Containers, role.Container()) || has(pod.Spec.InitContainers, role.Container()) {
			delete(g.parts, role)
		}
	}
	for _, p := range parts {
		if in := g.parts[p.Role]; in != nil && p.Number < in.Number {
			g.older[p.Role]++
		}
	}
	if len(g.parts) == 0 {
		return pod
	}
	out := *pod
	g.pod = &out
	out.Spec.Volumes = slices.Clone(pod.Spec.Volumes)
	out.Spec.Containers = slices.Clone(pod.Spec.Containers)
	out.Status.ContainerStatuses = slices.Clone(pod.Status.ContainerStatuses)
	for _, role := range patches.Roles {
		if p := g.parts[role]; p != nil {
			out.Spec.Containers = append(out.Spec.Containers, g.container(p))
			if p.Status != nil {
				out.Status.ContainerStatuses = append(out.Status.ContainerStatuses, g.status(p))
			}
		}
	}
	return &out
}

// Name is what a container of the view is called on the pod, for those who look at its logs:
// stategraft-medusa-3 for stategraft-medusa. Of another container it is the name itself.
func Name(pod *corev1.Pod, container string) string {
	for role, p := range chosen(Parts(pod)) {
		if role.Container() == container {
			return p.Container.Name
		}
	}
	return container
}

// Stubs are of the ephemeral containers those that stand in the view for some roles, with
// what Name tells them by and no more: for who keeps of a view the containers of these roles.
func Stubs(pod *corev1.Pod, roles ...patches.Role) (stubs []corev1.EphemeralContainer) {
	for _, role := range roles {
		if p := chosen(Parts(pod))[role]; p != nil {
			stubs = append(stubs, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: p.Container.Name,
				Env: []corev1.EnvVar{{Name: patches.EnvAdopted, Value: p.Env(patches.EnvAdopted)}}}})
		}
	}
	return stubs
}

// chosen are the parts that stand in the view, of parts in the order of their numbers.
func chosen(parts []Part) map[patches.Role]*Part {
	by := map[patches.Role]*Part{}
	for i := range parts {
		p := &parts[i]
		if have := by[p.Role]; have == nil || !stands(have) || stands(p) {
			by[p.Role] = p
		}
	}
	return by
}

func has(containers []corev1.Container, name string) bool {
	return slices.ContainsFunc(containers, func(c corev1.Container) bool { return c.Name == name })
}

// stands tells whether a part does what it is there for.
func stands(p *Part) bool { return p.State() == Running || brought(p) }

// brought tells of an agent of Cassandra whether it has done its work.
func brought(p *Part) bool { return p.Role == patches.RoleAgent && !p.anna() && p.Done() }

// anna tells whether an agent is Anna's, which serves the controllers.
func (p *Part) anna() bool { return p.Role == patches.RoleAgent && p.Env(patches.EnvNodePort) != "" }

// graft is a pod on its way to being its own view.
type graft struct {
	pod   *corev1.Pod
	parts map[patches.Role]*Part
	older map[patches.Role]int32 // how many parts were before
}

// status is what the kubelet says of a part, as of a container that was started again for
// each number.
func (g *graft) status(p *Part) corev1.ContainerStatus {
	s := *p.Status
	s.Name, s.RestartCount = p.Role.Container(), g.older[p.Role]
	if brought(p) {
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: s.State.Terminated.StartedAt}}
	}
	s.Ready = s.State.Running != nil // the kubelet says it of ordinary containers alone
	s.Started = new(s.Ready)
	return s
}
