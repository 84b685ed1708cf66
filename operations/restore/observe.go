package restore

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// failureLimit is how much of what a restore container said last is kept.
const failureLimit = 600

// describeEnd says why a container failed.
func describeEnd(t *corev1.ContainerStateTerminated) string {
	text := line(t.Message)
	if text == "" {
		text = fmt.Sprintf("it ended with code %d", t.ExitCode)
		if t.Reason != "" {
			text += " (" + t.Reason + ")"
		}
	}
	return workload.Clip(text, failureLimit)
}

// line makes one line of a text.
func line(text string) string { return workload.Printable(strings.Join(strings.Fields(text), " ")) }

// observe writes down what the pods of the pending list look like, and takes those
// off it that are restored.
func (c *course) observe() {
	for _, name := range c.r.Status.Pending {
		if c.status.Pod(name) == nil {
			c.drop(name) // somebody wrote the status; nothing is known of such a pod
		}
	}
	c.each(func(at *api.PodRestore, s seen) {
		switch s.sight {
		case leaving:
			at.Phase = api.PodStopping
		case absent, replaced:
			if comeBack(at.Phase) {
				at.Phase, at.Message = api.PodWaiting, "it was deleted, and goes on when it is created again"
			} else {
				at.Phase = api.PodStopping
			}
		case gated, coming:
			at.Phase = api.PodWaiting
			if at.Failures == 0 {
				at.Message = placing(s.pod)
			}
		case restoring:
			c.observeRun(at, s)
		case restored:
			c.observeEnd(at, s)
		case unclear:
			at.Phase = api.PodRestoring
			at.Message = "its restore container ended well, but what it said is not the outcome of this Restore; waiting for its sidecar to tell what its volume holds"
		}
	})
	c.count()
}

// placing tells why no node takes a pod. While it was down another may have taken its
// place.
func placing(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return "no node takes it: " + workload.Clip(line(c.Message), 200)
		}
	}
	return ""
}

// standstill is what a container says while no byte comes, without the time, which
// would be written to the status again and again.
func standstill(message string) string {
	if _, why, ok := strings.Cut(message, "; "); ok {
		return "no byte comes; " + workload.Clip(line(why), 300)
	}
	return line(message)
}

// observeRun writes down how far a restore container is, and why it tries again.
func (c *course) observeRun(at *api.PodRestore, s seen) {
	at.Phase = api.PodRestoring
	if at.Started == nil {
		at.Started = new(metav1.NewTime(c.now))
	}
	said := ""
	if p, ok := c.w.progress[at.Name]; ok && p.ID == c.status.ID {
		said = standstill(p.Message)
		at.Bytes = p.Bytes
		if p.BytesTotal > 0 {
			at.BytesTotal = p.BytesTotal
		}
	}
	if s.failure == "" {
		if at.Failures == 0 {
			at.Message = said
		}
		return
	}
	if s.failures > at.Failures {
		c.counted[outcomeFailed] += int(s.failures - at.Failures)
		at.Failures = s.failures
	}
	text := "tries again after: " + s.failure
	if at.Message == text {
		return
	}
	at.Message = text
	c.say = append(c.say, saying{pod: s.pod, kind: corev1.EventTypeWarning, reason: eventFailing,
		message: fmt.Sprintf("the restore of pod %s (%s) failed and is tried again: %s", at.Name, c.what(at), s.failure)})
}

// observeEnd takes over the outcome. In mode Remote the pod stays on the list until
// it is Ready, so that its tokens reach every start until it has joined.
func (c *course) observeEnd(at *api.PodRestore, s seen) {
	was := *at
	first := was.Phase != api.PodJoining
	at.Phase = api.PodRestored
	at.Previous = s.done.Previous
	if s.done.Bytes > 0 {
		at.Bytes = s.done.Bytes
	}
	at.BytesTotal = max(at.BytesTotal, at.Bytes)
	at.Bytes = at.BytesTotal
	if at.Started == nil || s.done.Started.Before(at.Started.Time) { // the first start, where the pod was deleted in the midst of it
		stamp(&at.Started, s.done.Started)
	}
	stamp(&at.Finished, s.done.Finished)
	at.Message = workload.Clip(line(s.text), failureLimit)
	if c.joins(at) && !(s.ready && s.pod.DeletionTimestamp == nil) {
		at.Phase = api.PodJoining
	}
	if c.replayed(at) {
		c.observeStaged(at, was, s)
		return
	}
	if first {
		c.say = append(c.say, saying{pod: s.pod, kind: corev1.EventTypeNormal, reason: eventRestored,
			message: fmt.Sprintf("pod %s is restored (%s)", at.Name, c.what(at))})
	}
	if at.Phase == api.PodRestored {
		c.counted[outcomeRestored]++
		c.drop(at.Name)
	}
}

// joins tells whether the pod needs its tokens until it has joined.
func (c *course) joins(at *api.PodRestore) bool {
	return c.r.Spec.Mode == api.Remote && c.status.Kind == "" && (at.Action == api.ActionRestore || at.Action == "")
}

// stamp sets a time as the API server keeps it, in whole seconds: with more it would
// be another one at each look.
func stamp(to **metav1.Time, at time.Time) {
	if !at.IsZero() {
		*to = new(metav1.NewTime(at.Truncate(time.Second)))
	}
}

// count makes the figures of kubectl get.
func (s *step) count() {
	var done int
	var bytes, total int64
	for i := range s.status.Pods {
		at := &s.status.Pods[i]
		if at.Phase == api.PodRestored {
			done++
		}
		if at.KeysTotal > 0 { // of Anna: its data are there once they are written again
			bytes, total = bytes+min(at.Keys, at.KeysTotal), total+at.KeysTotal
			continue
		}
		bytes, total = bytes+min(at.Bytes, at.BytesTotal), total+at.BytesTotal
	}
	if len(s.status.Pods) == 0 {
		s.status.Progress = api.RestoreProgress{}
		return
	}
	s.status.Progress.Pods = fmt.Sprintf("%d/%d", done, len(s.status.Pods))
	switch {
	case total > 0:
		s.status.Progress.Data = fmt.Sprintf("%d%%", bytes*100/total)
	case done == len(s.status.Pods):
		s.status.Progress.Data = "100%"
	default:
		s.status.Progress.Data = ""
	}
}

// onlyProgress tells whether nothing but figures would change, which need not be
// written each time.
func onlyProgress(was, is *api.RestoreStatus) bool {
	return equalBut(was, is, func(s *api.RestoreStatus) {
		s.Progress = api.RestoreProgress{}
		for i := range s.Pods {
			s.Pods[i].Bytes, s.Pods[i].BytesTotal, s.Pods[i].Keys, s.Pods[i].KeysTotal = 0, 0, 0, 0
		}
	})
}

// replacing tells whether a container has begun to replace data.
func replacing(p node.Progress) bool {
	return p.Phase != node.LookingUp && p.Phase != node.Downloading
}
