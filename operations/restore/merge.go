package restore

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// merges begins a Restore that stops no pod.
func (s *step) merges(r *api.Restore, message string, now time.Time) {
	s.status.Phase, s.status.Message = api.RestoreRestoring, workload.Clip(message, messageLimit)
	s.set(api.ConditionRestoring, true, ReasonRestoring, "the keys of the backup are written into the cluster", r.Generation, now)
	s.normal(eventChecked, message)
	s.after = time.Millisecond
}

// merge has all nodes of a cluster of Anna write their parts of the backup into it as it
// is, and follows them.
func (c *course) merge() {
	c.status.ObservedGeneration = c.r.Generation
	c.losses()
	for i := range c.status.Pods {
		if at := &c.status.Pods[i]; !at.Phase.Over() {
			c.mergeInto(at)
		}
	}
	c.allReplayed()
	c.count()
	if c.restoredAll() {
		c.complete()
		return
	}
	var parts []string
	c.addReplays(func(text string, names []string) {
		if len(names) > 0 {
			parts = append(parts, text+" "+few(names))
		}
	})
	c.status.Phase, c.status.Message = api.RestoreRestoring, "keys of the backup are written into the cluster"
	for i, part := range parts {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		c.status.Message += sep + part
	}
	c.status.Message = workload.Clip(c.status.Message, messageLimit)
	c.after = slowPause
	switch {
	case c.replayFails():
	case c.now.After(deadline(c.r)):
		c.fail(ReasonDeadline, fmt.Sprintf("the deadline has passed with %s pods done (%s). Sidecars that still write go on until they are done; what is written stays", c.status.Progress.Pods, c.status.Message), c.r.Generation, c.now)
		c.after = 0
	}
}

// mergeInto takes one pod further.
func (c *course) mergeInto(at *api.PodRestore) {
	pod := c.w.pods[at.Name]
	switch {
	case pod == nil || pod.DeletionTimestamp != nil:
		at.Phase, at.Message = api.PodWaiting, "is not there, and is waited for"
		return
	case at.Phase != api.PodReplayed:
		at.Phase = api.PodReplaying
	}
	if at.Started == nil {
		at.Started = new(metav1.NewTime(c.now))
	}
	if c.r.Spec.Suspend {
		at.Message = "suspended: it is not asked to begin"
		if _, began := c.w.replays[at.Name]; !began || c.w.replays[at.Name].ID != c.status.ReplayID() {
			return
		}
	}
	c.follow(at, pod)
}

// restoredAll tells whether all pods are.
func (c *course) restoredAll() bool {
	for i := range c.status.Pods {
		if c.status.Pods[i].Phase != api.PodRestored {
			return false
		}
	}
	return true
}
