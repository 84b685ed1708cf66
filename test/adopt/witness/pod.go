package witness

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
)

// pod is what is known of a pod.
type pod struct {
	last     *corev1.Pod
	rounds   []time.Time // when containers were added, as they say
	since    time.Time   // when the last of it was seen
	number   int         // of the last container
	adopting bool        // from a round's addition until all is up
	renews   int         // rounds that it may get though nothing has ended
	told     bool        // that its database was touched
}

// workload is whose the pod is; itself where it is nobody's.
func workload(p *corev1.Pod) string {
	if owner := metav1.GetControllerOf(p); owner != nil {
		return p.Namespace + "/" + owner.Kind + "/" + owner.Name
	}
	return p.Namespace + "/Pod/" + p.Name
}

// brings tells whether a part only brings the others their binary.
func brings(p *adopted.Part) bool { return p.Env(patches.EnvAdoptedTakers) != "" }

// roles are those that a pod has parts of.
func roles(parts []adopted.Part) (found []patches.Role) {
	for _, role := range patches.Roles {
		if adopted.Newest(parts, role) != nil {
			found = append(found, role)
		}
	}
	return found
}

// untouched looks at what adoption must leave alone: the containers, how often they were
// started, and that the pod is ready.
func (w *Witness) untouched(p *pod, object *corev1.Pod) {
	if p.last == nil || p.told {
		return
	}
	before, after := containers(p.last), containers(object)
	switch {
	case before != after:
		w.fault(object, "its containers were changed: from %s to %s", before, after)
	case restarts(object) > restarts(p.last):
		w.fault(object, "a container was started again")
	case p.number > 0 && ready(p.last) && !ready(object):
		w.fault(object, "it is no longer ready")
	default:
		return
	}
	p.told = true
}

func containers(p *corev1.Pod) string {
	text, err := json.Marshal([][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers})
	if err != nil {
		panic(err) // plain values
	}
	return string(text)
}

func restarts(p *corev1.Pod) (n int32) {
	for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		n += s.RestartCount
	}
	return n
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
