package restore

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// cancel opens the way again. First the pending list is emptied, then pods that still
// wait for this Restore or are in it are deleted, so that they come up without it.
func cancel(r *api.Restore, w world, now time.Time) step {
	c := newCourse(r, w, now)
	c.observe()
	c.status.ObservedGeneration = r.Generation
	if len(r.Status.Pending) > 0 {
		c.open()
	}
	c.afterAll()
	c.clear()
	if len(c.remove) > 0 {
		if c.status.Phase == "" || c.status.Phase.Final() {
			c.status.Phase = api.RestoreRestoring // until its pods are gone; what is final is let go
		}
		c.after = briefPause
		return c.step
	}
	message := "cancelled before a pod was touched"
	if is, _ := condition(&c.status, api.ConditionPrechecked); is {
		message = fmt.Sprintf("cancelled with %s pods restored; status.pods says in what state the volume of each is", c.status.Progress.Pods)
	}
	c.status.Phase, c.status.Probe = api.RestoreCancelled, ""
	c.ended(ReasonCancelled, message, r.Generation, now)
	c.set(api.ConditionCompleted, false, ReasonCancelled, message, r.Generation, now)
	c.normal(eventCancelled, message)
	c.free = true
	return c.step
}

// open empties the pending list, and says of each pod in what state its volume is.
func (c *course) open() {
	c.each(func(at *api.PodRestore, s seen) {
		text, danger := c.volume(at, s)
		if c.w.kept[at.Name] { // in the middle of it
			at.Previous = true
			text += ", or go back to the data from before it (spec.undo: " + c.r.Name + ")"
		}
		at.Message = workload.Clip(text, failureLimit)
		kind := corev1.EventTypeNormal
		if danger {
			kind = corev1.EventTypeWarning
		}
		c.counted[outcomeCancelled]++
		c.say = append(c.say, saying{pod: s.pod, kind: kind, reason: eventVolume, message: fmt.Sprintf("pod %s, restore cancelled: %s", at.Name, text)})
	})
	c.status.Pending, c.status.Probe = nil, ""
	c.status.Message = "is being cancelled: pods that wait for it are deleted, to start without it"
}

// afterAll takes over the outcome of containers that ended well after the list was
// emptied.
func (c *course) afterAll() {
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		if _, listed := c.seen[at.Name]; listed || at.Phase == api.PodRestored || c.status.ID == "" || c.joins(at) {
			continue
		}
		if s := look(c.w.pods[at.Name], at, c.status.ID, nil, time.Time{}); s.sight == restored {
			c.observeEnd(at, s)
		}
	}
	c.count()
}

// volume says in what state a restore that does not go on leaves the volume of a pod.
func (c *course) volume(at *api.PodRestore, s seen) (text string, danger bool) {
	switch s.sight {
	case restored: // in mode Remote
		return "the volume holds the restored data, but the node has not been Ready yet; from now on its tokens do not reach it when it starts again", true
	case unclear:
		return "the restore container ended well, but its outcome is not known; the sidecar's report tells what the volume holds", true
	case restoring:
		p, ok := c.w.progress[at.Name]
		if ok && p.ID == c.status.ID && !replacing(p) && at.Failures == 0 && firstTry(at, s) {
			return "the volume is untouched; what was downloaded is discarded", false
		}
	default:
		if at.Failures == 0 && firstTry(at, s) {
			return "the volume is untouched", false
		}
	}
	return "DANGER: the data on the volume may be half replaced, and the database now starts with them. Restore the pod again, by a new Restore of " + c.again(at) + ", before it is used", true
}

// firstTry tells whether no earlier pod of this name was let start to restore: one was
// deleted in the midst of it, perhaps between two looks, if this one is not as old as
// the time when the first was let start.
func firstTry(at *api.PodRestore, s seen) bool {
	return at.Started == nil || s.pod != nil && s.pod.CreationTimestamp.Time.Before(at.Started.Truncate(time.Second))
}

func (c *course) again(at *api.PodRestore) string {
	if at.Action == api.ActionUndo {
		return "the backup that it had been restored from, or of another"
	}
	return "backup " + c.status.Backup
}

// clear deletes the pods that carry the restore container of this Restore and have
// not got past it. A pod that is restored already is let be, also when its container
// runs again after its node was started anew: it finds that nothing is left to do.
func (c *course) clear() {
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		pod := c.w.pods[at.Name]
		if pod == nil || pod.DeletionTimestamp != nil || c.status.ID == "" || restoreID(pod) != c.status.ID || finished(pod) || at.Phase == api.PodRestored {
			continue
		}
		c.remove = append(c.remove, removal{pod: pod, kind: corev1.EventTypeNormal, reason: eventReleased,
			message: fmt.Sprintf("pod %s is deleted, to start without the restore of %s, which is cancelled", at.Name, c.r.Name)})
	}
}
