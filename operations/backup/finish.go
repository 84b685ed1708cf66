package backup

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// overdue ends a Backup whose time is over, by what is complete.
func (c *course) overdue() {
	within := fmt.Sprintf("it was not complete within %v", c.b.Spec.TimeoutOrDefault())
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		if at.Phase.Final() {
			continue
		}
		why := within
		switch {
		case at.Message != "" && (at.Phase == api.PodBackupChecking || ofElse(at.Message)):
			why += "; " + at.Message
		case at.Message != "":
			why += "; it " + at.Message
		case at.Phase == api.PodBackupRunning:
			why += "; its sidecar may go on uploading, to no end"
		}
		c.fail(at, why)
	}
	c.count()
	c.finish(ReasonDeadline)
}

// finish ends a Backup all of whose pods are final.
func (c *course) finish(reason string) {
	complete, total := 0, len(c.status.Pods)
	var failed, lacking []string
	var missing int64
	why := ""
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		if at.Phase == api.PodBackupComplete {
			complete++
			if at.Missing > 0 {
				missing += at.Missing
				lacking = append(lacking, at.Name)
				if why == "" {
					why = at.Message
				}
			}
			continue
		}
		failed = append(failed, at.Name)
		if why == "" {
			why = at.Message
		}
	}
	phase := api.BackupPartial
	message := fmt.Sprintf("%d of %s complete; not %s: %s", complete, counted(total, "pod"), someOf(failed), why)
	switch {
	case complete == total && missing > 0:
		reason = ReasonKeysMissing
		message = fmt.Sprintf("%s of %s are not in it: of %s, which %s", counted(int(missing), "key"), counted(total, "pod"), someOf(lacking), why)
		c.set(api.ConditionStored, true, ReasonChecked, "the storage has a part of every pod, and objects in each", c.b.Generation, c.now)
	case complete == total && total > 0:
		phase, reason, message = api.BackupComplete, ReasonComplete, fmt.Sprintf("%s, %s", counted(total, "pod"), sizeText(c.status.Bytes))
		if others := c.strangers(); len(others) > 0 {
			message += fmt.Sprintf("; the cluster also has %s, which the Backup is not about: alone it does not bring back the whole cluster", someOf(others))
		}
		c.status.Listed = stamp(c.now)
		c.set(api.ConditionStored, true, ReasonChecked, "the storage has a part of every pod, and objects in each", c.b.Generation, c.now)
	case cancelled(c.b):
		phase, reason = api.BackupCancelled, ReasonCancelled
		message = "cancelled; " + message
	case complete == 0:
		phase = api.BackupFailed
	}
	c.end(phase, orElse(reason, ReasonPodsFailed), message)
}

// strangers are nodes of the cluster that no pod of the Backup is, where the storage
// was looked into a moment ago.
func (c *course) strangers() (others []string) {
	if c.w.stored == nil {
		return nil
	}
	mine := map[string]bool{}
	for i := range c.status.Pods {
		mine[c.status.Pods[i].StorageNode()] = true
	}
	for _, name := range slices.SortedFunc(maps.Keys(c.w.stored.Ring), natural) {
		if !mine[name] {
			others = append(others, name)
		}
	}
	return others
}

// end writes that it is over, and how.
func (c *course) end(phase api.BackupPhase, reason, message string) {
	c.begin, c.discard = nil, nil
	c.status.Phase, c.status.Message = phase, workload.Clip(message, messageLimit)
	c.status.Finished = stamp(c.now)
	c.set(api.ConditionCompleted, phase == api.BackupComplete, reason, message, c.b.Generation, c.now)
	bad := phase == api.BackupFailed || phase == api.BackupPartial
	c.set(api.ConditionFailed, bad, reason, message, c.b.Generation, c.now)
	switch phase {
	case api.BackupComplete:
		c.normal(eventCompleted, message)
	case api.BackupCancelled:
		c.normal(eventCancelled, message)
	default:
		c.warn(eventFailed, message)
		c.say[len(c.say)-1].owner = true
	}
}

// count makes the figures of the whole.
func (c *course) count() {
	c.status.Bytes, c.status.Objects = 0, 0
	done := 0
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		if at.Phase == api.PodBackupComplete {
			done++
			c.status.Bytes, c.status.Objects = c.status.Bytes+at.Bytes, c.status.Objects+at.Objects
		}
	}
	c.status.Progress = api.BackupProgress{Pods: fmt.Sprintf("%d/%d", done, len(c.status.Pods))}
	if done > 0 {
		c.status.Progress.Size = sizeText(c.status.Bytes)
	}
}

// olderVersion compares versions such as 4.1.10 by their numbers.
func olderVersion(a, b string) bool {
	for {
		headA, restA, moreA := strings.Cut(a, ".")
		headB, restB, moreB := strings.Cut(b, ".")
		numberA, errA := strconv.Atoi(headA)
		numberB, errB := strconv.Atoi(headB)
		switch {
		case errA != nil || errB != nil:
			return a < b
		case numberA != numberB:
			return numberA < numberB
		case !moreA || !moreB:
			return moreB && !moreA
		}
		a, b = restA, restB
	}
}
