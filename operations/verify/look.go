package verify

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of condition Verified, a closed set.
const (
	ReasonPassed = "Passed"
	// ReasonPassedUncompared: what was restored is whole, but nothing tells what rows there
	// should be, or none could be counted.
	ReasonPassedUncompared = "PassedUncompared"
	ReasonDiffers          = "Differs"     // rows are missing, or too many
	ReasonDamaged          = "Damaged"     // files are missing or not what was written
	ReasonNotRestored      = "NotRestored" // the storage does not have what it should
	ReasonTimedOut         = "TimedOut"
	ReasonNotStarted       = "NotStarted"   // the pod did not come to run
	ReasonNoPod            = "NoPod"        // there is none to make it after
	ReasonStorage          = "Storage"      // the restore did not get at the storage, or failed otherwise
	ReasonNoResult         = "NoResult"     // it ran, and did not say what it found
	ReasonNotSupported     = "NotSupported" // it is of Anna
	ReasonNotWanted        = "NotWanted"    // its schedule went, or asks for none any more
)

const (
	// startLimit is how long a pod may take to be scheduled, and its images to be pulled.
	startLimit = 15 * time.Minute
	// restarts is how often kubelet tries each of the containers again: with its pauses
	// that is five minutes, in which an outage of the storage passes.
	restarts = 5
)

// outcome is how far a pod is.
type outcome struct {
	over    bool
	result  *node.Verified // once it has one
	reason  string         // why there is none, once it is over
	message string         // why, or what it does
}

// look tells how far a pod is.
func look(pod *corev1.Pod, now time.Time) outcome {
	for _, s := range pod.Status.ContainerStatuses {
		t := s.State.Terminated
		if s.Name != containerVerify || t == nil {
			continue
		}
		if t.ExitCode == 0 {
			v, err := node.ParseVerified(t.Message)
			if err != nil {
				return outcome{over: true, reason: ReasonNoResult, message: "the pod ended well, and did not say what it found"}
			}
			return outcome{over: true, result: &v}
		}
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return died(pod)
	}
	if pod.DeletionTimestamp != nil {
		return outcome{message: "the pod is being deleted; another is made"}
	}
	for _, s := range pod.Status.InitContainerStatuses {
		if t := s.State.Terminated; s.RestartCount >= restarts && (t == nil || t.ExitCode != 0) {
			return restoreFailed(pod, &s)
		}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.RestartCount >= restarts {
			return outcome{over: true, reason: ReasonNoResult, message: "what was restored cannot be looked at: " + last(&s)}
		}
	}
	if why := holdup(pod); why != "" {
		if now.Sub(since(pod)) > startLimit {
			return outcome{over: true, reason: ReasonNotStarted, message: fmt.Sprintf("nothing has started within %v: %s", startLimit, why)}
		}
		return outcome{message: why}
	}
	return outcome{message: doing(pod)}
}

// died is a pod that has ended without a result.
func died(pod *corev1.Pod) outcome {
	if pod.Status.Reason == "DeadlineExceeded" {
		return outcome{over: true, reason: ReasonTimedOut, message: "it did not end in time: " + doing(pod)}
	}
	why := pod.Status.Reason
	if why == "" {
		why = "its containers failed"
	}
	return outcome{over: true, reason: ReasonNoResult, message: clean(fmt.Sprintf("the pod ended without a result (%s) %s", why, pod.Status.Message))}
}

// restoreFailed is an init container that failed as often as it may.
func restoreFailed(pod *corev1.Pod, s *corev1.ContainerStatus) outcome {
	text := last(s)
	if s.Name == patches.ContainerRestore && causeOf(s) != node.CauseNone {
		return outcome{over: true, reason: ReasonNotRestored, message: "the backup cannot be restored: " + text}
	}
	if note := pod.Annotations[annotationNote]; note != "" {
		text += "; " + note
	}
	return outcome{over: true, reason: ReasonStorage, message: "the restore failed: " + text}
}

// causeOf is the cause that a restore container has left: none where the storage was
// not reached, or there was no room.
func causeOf(s *corev1.ContainerStatus) node.Cause {
	if t := ending(s); t != nil {
		_, cause := node.ParseFailure(t.Message)
		return cause
	}
	return node.CauseNone
}

// ending is how a container ended last; nil where it has not.
func ending(s *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if t := s.State.Terminated; t != nil {
		return t
	}
	return s.LastTerminationState.Terminated
}

// last is what a container said when it failed last.
func last(s *corev1.ContainerStatus) string {
	t := ending(s)
	if t == nil {
		return "container " + s.Name + " says nothing"
	}
	text, _ := node.ParseFailure(t.Message)
	if strings.TrimSpace(text) == "" {
		text = fmt.Sprintf("container %s ended with status %d (%s)", s.Name, t.ExitCode, t.Reason)
	} else if t.Reason == "OOMKilled" {
		text = "OOMKilled (spec.verify.resources): " + text
	}
	return clean(text)
}

// holdup tells what the pod waits for, or is empty when its containers run.
func holdup(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return clean("it is not scheduled: " + c.Message)
		}
	}
	started := false
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, s := range list {
			started = started || s.State.Running != nil || s.State.Terminated != nil || s.RestartCount > 0
			if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" && w.Reason != "CrashLoopBackOff" {
				return clean(fmt.Sprintf("its container %s waits: %s %s", s.Name, w.Reason, w.Message))
			}
		}
	}
	if !started {
		return "its containers do not run yet"
	}
	return ""
}

// since is since when the pod waits for its next container.
func since(pod *corev1.Pod) time.Time {
	at := pod.CreationTimestamp.Time
	for _, s := range pod.Status.InitContainerStatuses {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(at) {
			at = t.FinishedAt.Time
		}
	}
	return at
}

// doing is what the pod does, in a few words.
func doing(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running != nil || s.RestartCount > 0 {
			return "what was restored is looked at"
		}
	}
	for _, s := range pod.Status.InitContainerStatuses {
		if s.Name == patches.ContainerRestore && s.RestartCount > 0 {
			return clean("the restore is tried again: " + last(&s))
		}
	}
	return "the backup is restored"
}

// messageLimit is of a message in the status.
const messageLimit = 500

func clean(text string) string { return workload.Clip(workload.Printable(text), messageLimit) }
