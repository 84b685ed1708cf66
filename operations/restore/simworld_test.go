package restore

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// create is what a StatefulSet's controller and admission do: the webhook adds the
// restore container where its informer has the order, the policy refuses a pod that
// ought to have it and has not.
func (s *sim) create(name string, admitted bool) {
	pod := factPod(name)
	if s.anna != nil {
		pod = annaPod(name)
		s.anna.created(name)
	}
	pod.UID, pod.ResourceVersion = types.UID("uid-"+strconv.Itoa(s.version+1)), s.bump()
	pod.CreationTimestamp = metav1.NewTime(s.now.Truncate(time.Second))
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if admitted {
		if s.webhookSees != nil && !s.webhookDown {
			if order, ok := s.webhookSees.Order(name); ok && order.Pending {
				pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: api.GateRestore}}
				pod.Spec.InitContainers = []corev1.Container{{Name: containerRestore, Env: []corev1.EnvVar{{Name: api.EnvRestoreID, Value: order.ID}}}}
			}
		}
		if s.policyLooks && slices.Contains(s.policyKnows, name) && (s.restore_ == nil || restoreID(pod) != s.restore_.Status.ID) && !(s.leaky && s.chance(0.3)) {
			s.logf("the policy refuses %s", name)
			return
		}
	}
	if d := s.disks[name]; s.anna != nil && d != nil {
		d.done, d.half = nil, false // what is staged goes with the pod
	}
	s.pods_[name] = pod
	if admitted {
		s.logf("created %s with %q", name, restoreID(pod))
	}
}

// start has the database of a pod start.
func (s *sim) start(pod *corev1.Pod) {
	if s.anna != nil {
		s.startNode(pod)
		return
	}
	pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	d := s.disks[pod.Name]
	r := s.restore_
	switch {
	case r == nil || !slices.Contains(r.Status.Pending, pod.Name):
	case restoreID(pod) == r.Status.ID && !slices.ContainsFunc(d.done, func(n node.Done) bool { return n.ID == r.Status.ID }):
		s.wrong("the database of %s starts after a restore container that restored nothing", pod.Name)
	}
	if r != nil && d.half && !s.leaky && !r.Spec.Cancel && r.DeletionTimestamp == nil {
		s.wrong("the database of %s starts with data that are half replaced", pod.Name)
	}
}

// world does one thing that happens without the controller.
func (s *sim) world() {
	switch s.rand.IntN(6) {
	case 0: // informers catch up
		s.learn()
	case 1, 2:
		s.statefulSet()
	default:
		name := "cas-" + strconv.Itoa(s.rand.IntN(s.replicas))
		if pod := s.pods_[name]; pod != nil {
			s.kubelet(pod)
		}
	}
}

func (s *sim) learn() {
	switch s.rand.IntN(4) {
	case 0, 1:
		s.webhookSees = s.restore_.DeepCopy()
		return
	case 2:
		s.policyLooks = s.marked_
		return
	}
	s.policyKnows, s.policyProbe = nil, ""
	if s.restore_ != nil {
		s.policyKnows, s.policyProbe = slices.Clone(s.restore_.Status.Pending), s.restore_.Status.Probe
	}
}

func (s *sim) statefulSet() {
	for i := range s.replicas {
		name := "cas-" + strconv.Itoa(i)
		pod := s.pods_[name]
		if pod == nil {
			s.create(name, true)
			return
		}
		if s.ordered && !ready(pod) {
			return
		}
	}
}

// kubelet takes a pod a step further.
func (s *sim) kubelet(pod *corev1.Pod) {
	switch {
	case pod.DeletionTimestamp != nil:
		if s.rand.IntN(2) == 0 {
			s.logf("gone %s", pod.Name)
			delete(s.pods_, pod.Name)
		}
		return
	case s.anna != nil && s.runsNode(pod):
		return
	case hasGate(pod) || ready(pod):
		return
	case restoreID(pod) == "":
		s.start(pod)
	case finished(pod):
		s.start(pod)
	default:
		s.container(pod)
	}
	pod.ResourceVersion = s.bump()
}

// container is a restore container: it downloads, replaces, writes its marker, ends.
func (s *sim) container(pod *corev1.Pod) {
	d, id := s.disks[pod.Name], restoreID(pod)
	status := restoreStatus(pod)
	if status == nil {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: containerRestore, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		d.progress = 0
		return
	}
	if status.State.Running == nil {
		status.LastTerminationState, status.State = status.State, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		status.RestartCount++
		d.progress = 0
		return
	}
	end := func(code int32, message string) {
		status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}}
	}
	if s.chance(0.1) {
		end(1, "the storage does not answer")
		return
	}
	if i := slices.IndexFunc(d.done, func(n node.Done) bool { return n.ID == id }); i >= 0 {
		s.finish(end, d.done[i])
		return
	}
	switch d.progress++; d.progress {
	case 1:
	case 2:
		d.half = true
		d.began++
	case 3:
		d.half = false
		d.runs++
		d.done = append(d.done, node.Done{ID: id, Bytes: 3, Started: s.now, Finished: s.now})
	}
}

// finish ends it well; some messages are lost.
func (s *sim) finish(end func(int32, string), done node.Done) {
	if s.chance(0.1) {
		end(0, "")
		return
	}
	end(0, node.Outcome("restored", done))
}

// byHand is what people do: they delete a pod, or write to the object.
func (s *sim) byHand() {
	switch s.rand.IntN(3) {
	case 0:
		if s.restore_ == nil {
			return
		}
		name := "cas-" + strconv.Itoa(s.rand.IntN(s.replicas))
		if checked, _ := condition(&s.restore_.Status, api.ConditionPrechecked); !checked && (s.anna != nil || !slices.Contains(s.restore_.Spec.Pods.Names, name)) {
			return // the prechecks would rightly say that the workload is smaller than the backup
		}
		if pod := s.pods_[name]; pod != nil && pod.DeletionTimestamp == nil {
			s.logf("by hand: delete %s", name)
			pod.DeletionTimestamp, pod.ResourceVersion = new(metav1.NewTime(s.now)), s.bump()
		}
	case 1:
		if s.restore_ != nil {
			s.restore_.ResourceVersion = s.bump()
		}
	case 2:
		if s.anna != nil && s.rand.IntN(2) == 0 {
			s.killNode()
			return
		}
		s.webhookDown = !s.webhookDown
	}
}
