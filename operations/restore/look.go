package restore

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// containerRestore is the init container that restores (patches.ContainerRestore).
const containerRestore = "stategraft-restore"

// sight is what a pod of the pending list looks like.
type sight int

const (
	absent    sight = iota // there is none
	old                    // it runs without a restore of ours
	leaving                // so does this one, and it is being deleted
	bare                   // it was created since, without its restore container
	gated                  // it has come back, and waits for its gate to be lifted
	coming                 // it is scheduled, or its earlier containers run
	restoring              // its restore container runs, or tries again
	restored               // its restore container ended well
	unclear                // the same, but what it says is not the outcome of this Restore
	replaced               // it had its restore container, and is being deleted
)

// seen is a pod as it was read, and what came of its restore container.
type seen struct {
	sight
	pod      *corev1.Pod
	text     string    // of the outcome
	done     node.Done // the outcome
	failure  string    // of the last try
	failures int32
	ready    bool
}

// stopped tells whether no database runs there that did not restore.
func (s seen) stopped() bool { return s.sight != old && s.sight != leaving && s.sight != bare }

// look judges a pod, which may be nil. Told is what the volume says of this restore,
// for a container whose message is lost. Since is when the pending list was written.
func look(pod *corev1.Pod, at *api.PodRestore, id string, told *node.Done, since time.Time) seen {
	if pod == nil {
		return seen{sight: absent}
	}
	s := seen{pod: pod, ready: ready(pod)}
	if restoreID(pod) != id {
		switch {
		case pod.DeletionTimestamp != nil:
			s.sight = leaving
		case comeBack(at.Phase), at.Phase != api.PodPlanned && pod.CreationTimestamp.After(since):
			// One that was not stopped yet is not bare, however young it seems: clocks
			// differ, and it would come back bare until the API server knows the list.
			s.sight = bare
		default:
			s.sight = old
		}
		return s
	}
	status := restoreStatus(pod)
	s.outcome(status, id, told)
	switch {
	case s.sight == restored:
	case pod.DeletionTimestamp != nil:
		s.sight = replaced
	case s.sight == unclear:
	case hasGate(pod):
		s.sight = gated
	case status == nil || status.State.Running == nil && s.failures == 0:
		s.sight = coming
	default:
		s.sight = restoring
	}
	return s
}

// comeBack tells whether the pod that there was before has been seen to be gone.
func comeBack(phase api.PodPhase) bool {
	return phase == api.PodWaiting || phase == api.PodRestoring || phase == api.PodJoining || phase == api.PodReplaying || phase == api.PodReplayed
}

// outcome reads what became of the restore container.
func (s *seen) outcome(status *corev1.ContainerStatus, id string, told *node.Done) {
	if status == nil {
		return
	}
	s.failures = status.RestartCount
	ended := status.State.Terminated
	if ended != nil && ended.ExitCode == 0 {
		text, done, err := node.ParseOutcome(ended.Message)
		switch {
		case err == nil && done.ID == id:
			s.sight, s.text, s.done = restored, text, done
		case told != nil && told.ID == id:
			s.sight, s.done = restored, *told
		default:
			s.sight = unclear
		}
		return
	}
	last := status.LastTerminationState.Terminated
	if ended == nil {
		ended = last
	}
	if ended == nil || ended.ExitCode == 0 { // 0: it ended well before, in an earlier sandbox of the pod
		s.failures = 0
		return
	}
	if status.State.Running == nil {
		s.failures++ // the count goes up when it starts again
	}
	s.failures = max(s.failures, 1)
	s.failure = describeEnd(ended)
}

// finished tells whether the restore container of the id, if the pod has it, needs
// nothing further.
func finished(pod *corev1.Pod) bool {
	status := restoreStatus(pod)
	return status != nil && status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
}

// restoreID is what the pod's restore container restores; empty where there is none,
// or it is the template's.
func restoreID(pod *corev1.Pod) string {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name != containerRestore {
			continue
		}
		for _, env := range pod.Spec.InitContainers[i].Env {
			if env.Name == api.EnvRestoreID {
				return env.Value
			}
		}
	}
	return ""
}

func restoreStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.InitContainerStatuses {
		if pod.Status.InitContainerStatuses[i].Name == containerRestore {
			return &pod.Status.InitContainerStatuses[i]
		}
	}
	return nil
}

func hasGate(pod *corev1.Pod) bool {
	for _, gate := range pod.Spec.SchedulingGates {
		if gate.Name == api.GateRestore {
			return true
		}
	}
	return false
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
