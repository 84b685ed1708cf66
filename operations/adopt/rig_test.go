package adopt

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
)

var start = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

// grafted are containers as patches.Adopt names and marks them, of the roles that a kind of
// pod has.
func grafted(a patches.Adoption, has ...patches.Role) (all []corev1.EphemeralContainer) {
	number := a.Next
	for _, role := range has {
		wanted := a.Roles == nil || role == patches.RoleAgent
		for _, r := range a.Roles {
			wanted = wanted || r == role
		}
		if !wanted {
			continue
		}
		c := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: role.Container() + "-" + strconv.Itoa(number), Image: "i"}}
		for name, value := range map[string]string{patches.EnvAdopted: strconv.Itoa(number), patches.EnvAdoptedAt: a.At.UTC().Format(time.RFC3339), patches.EnvAdoptedPair: a.Pair,
			patches.EnvAdoptedRenew: a.Renew, patches.EnvAdoptedDigest: "d", envCertificate: ""} {
			c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
		}
		all = append(all, c)
		number++
	}
	return all
}

var cassandra = []patches.Role{patches.RoleAgent, patches.RoleSnapshot, patches.RoleMedusa}

// is sets the state of the newest container of a role.
func is(pod *corev1.Pod, role patches.Role, state corev1.ContainerState) {
	part := adopted.Newest(adopted.Parts(pod), role)
	if part == nil {
		panic(fmt.Sprintf("no %s on %s", role, pod.Name))
	}
	name := part.Container.Name
	for i := range pod.Status.EphemeralContainerStatuses {
		if s := &pod.Status.EphemeralContainerStatuses[i]; s.Name == name {
			s.State = state
			return
		}
	}
	pod.Status.EphemeralContainerStatuses = append(pod.Status.EphemeralContainerStatuses, corev1.ContainerStatus{Name: name, State: state})
}

func ended(code int32, at time.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", FinishedAt: metav1.NewTime(at)}}
}

func waits(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "because"}}
}

var runs = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

// allUp has the newest containers of a pod run, but for Cassandra's agent, which has ended.
func allUp(pod *corev1.Pod) {
	alone := true
	for _, role := range cassandra[1:] {
		if adopted.Newest(adopted.Parts(pod), role) != nil {
			is(pod, role, runs)
			alone = false
		}
	}
	if alone {
		is(pod, patches.RoleAgent, runs)
	} else {
		is(pod, patches.RoleAgent, ended(0, start))
	}
}

// aPod is one that could be adopted.
func aPod(name, set, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID(name), ResourceVersion: "1"}}
	if set != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set, UID: types.UID(set), Controller: new(true)}}
	}
	p.Spec.NodeName = node
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

// aNode is one that takes ephemeral containers.
func aNode(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.31.2", OperatingSystem: "linux"}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}}
	return n
}

// round adds containers to a pod.
func round(pod *corev1.Pod, at time.Time, has []patches.Role, only ...patches.Role) {
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, grafted(patches.Adoption{Next: Of(pod).Taken + 1, Roles: only, At: at, Pair: "p"}, has...)...)
}
