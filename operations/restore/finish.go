package restore

import (
	"fmt"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// complete ends a Restore all of whose pods are restored.
func (c *course) complete() {
	c.status.Phase, c.status.Pending, c.status.Probe = api.RestoreCompleted, nil, ""
	message := fmt.Sprintf("%d of %d pods are restored", len(c.status.Pods), len(c.status.Pods))
	if c.status.Backup != "" {
		message += " from backup " + c.status.Backup
	}
	c.ended(ReasonCompleted, message, c.r.Generation, c.now)
	c.set(api.ConditionCompleted, true, ReasonCompleted, message, c.r.Generation, c.now)
	c.normal(eventCompleted, message)
	c.count()
	c.free = true
}

// overdue ends a Restore whose time is up. Where pods were stopped they stay so, as a
// database must not start without the restore that was asked for.
func (c *course) overdue() {
	c.tellPhase()
	left := len(c.status.Pending)
	untouched := true
	c.each(func(at *api.PodRestore, _ seen) { untouched = untouched && at.Phase == api.PodPlanned })
	message := fmt.Sprintf("the deadline has passed with %d of %d pods not restored (%s). They stay stopped until this Restore is cancelled (spec.cancel: true) or deleted; then they start with what is on their volumes", left, len(c.status.Pods), c.status.Message)
	if untouched {
		c.status.Pending, c.status.Probe = nil, ""
		message = fmt.Sprintf("the deadline has passed before a pod was touched (%s)", c.status.Message)
		c.free = true
	}
	c.fail(ReasonDeadline, message, c.r.Generation, c.now)
	c.after = latePause
}

// fail ends a Restore that cannot be done.
func (s *step) fail(reason, message string, generation int64, now time.Time) {
	s.status.Phase = api.RestoreFailed
	s.ended(reason, message, generation, now)
	s.set(api.ConditionFailed, true, reason, message, generation, now)
	s.warn(eventFailed, reason+": "+message)
}

// late follows the pods of a Restore that has failed: those that finish all the same
// leave the list.
func (c *course) late() {
	c.count()
	if c.after = latePause; len(c.status.Pending) > 0 {
		return
	}
	c.status.Probe = ""
	c.status.Message = workload.Clip("all pods were restored, after the deadline had passed", messageLimit)
	c.normal(eventCompleted, c.status.Message)
	c.free = true
}
