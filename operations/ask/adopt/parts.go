package adopt

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// Injected tells whether a pod was created with its sidecar: the label alone may be in a
// template that a live pod was copied into.
func Injected(pod *corev1.Pod) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		if slices.ContainsFunc(list, func(c corev1.Container) bool { return workload.Own(c.Name) }) {
			return true
		}
	}
	return false
}

// Adopted tells whether a pod has its sidecar by adoption: a part of each role does what it
// is there for, and the controllers know it. With a value of api.AnnotationAdoptRenew only
// parts count that have it.
func Adopted(pod *corev1.Pod, renew string) bool {
	parts := adopted.Parts(pod)
	if len(parts) == 0 || pod.Labels[api.LabelInjected] == "" {
		return false
	}
	for _, role := range patches.Roles {
		up, has := false, false
		for i := range parts {
			if p := &parts[i]; p.Role == role {
				has, up = true, up || stands(p) && (renew == "" || p.Env(patches.EnvAdoptedRenew) == renew)
			}
		}
		if has && !up {
			return false
		}
	}
	return true
}

// stands tells whether a part does what it is there for. The agent of Cassandra ends when
// it is done.
func stands(p *adopted.Part) bool {
	return p.State() == adopted.Running || p.Role == patches.RoleAgent && p.Env(patches.EnvNodePort) == "" && p.Done()
}

// newest are the names of the last part of each role.
func newest(parts []adopted.Part) (names []string) {
	for _, role := range patches.Roles {
		if p := adopted.Newest(parts, role); p != nil {
			names = append(names, p.Container.Name)
		}
	}
	return names
}

// doing says how the last part of each role does.
func doing(parts []adopted.Part) string {
	var all []string
	for _, role := range patches.Roles {
		if p := adopted.Newest(parts, role); p != nil {
			all = append(all, p.Container.Name+" "+Does(p))
		}
	}
	return strings.Join(all, ", ")
}

// Does says how a part does: "waits (ErrImagePull: …)".
func Does(p *adopted.Part) string {
	switch p.State() {
	case adopted.Running:
		return "runs"
	case adopted.Ended:
		if p.Done() && stands(p) {
			return "is done"
		}
		s := p.Status.State.Terminated
		return because(fmt.Sprintf("has ended with status %d", s.ExitCode), s.Reason, "")
	case adopted.Waiting:
		s := p.Status.State.Waiting
		if s.Reason == "" || s.Reason == "ContainerCreating" || s.Reason == "PodInitializing" {
			return "is being started"
		}
		return because("waits", s.Reason, s.Message) + remedy(s)
	}
	return "was added"
}

// remedy says what helps a part that waits for a ConfigMap or a Secret. A kubelet has the
// same reason for what is wrong with a container otherwise; its messages are those of
// k8s.io/kubernetes/pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables.
func remedy(s *corev1.ContainerStateWaiting) string {
	if s.Reason == "CreateContainerConfigError" && (strings.Contains(s.Message, "not found") || strings.Contains(s.Message, "couldn't find key")) {
		return "; create it, it goes on by itself"
	}
	return ""
}

// because has a kubelet's reason and message after what they are of.
func because(what, reason, message string) string {
	why := ask.Clean(reason)
	if message = ask.Clean(message); message != "" {
		why = strings.TrimPrefix(why+": "+message, ": ")
	}
	if why == "" {
		return what
	}
	return what + " (" + why + ")"
}
