package restore

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		if silent := c.unanswered(); w.askAgain && len(silent) > 0 {
			c.status.Message = "is being cancelled: asks " + few(silent) + " whether data are being replaced there"
			c.after = briefPause
			return c.step
		}
		c.open()
	}
	c.afterAll()
	c.movedOn()
	c.clear()
	if len(c.remove) > 0 || c.ending() {
		if c.status.Phase == "" || c.status.Phase.Final() {
			c.status.Phase = api.RestoreRestoring // until its pods are gone; what is final is let go
		}
		c.after = briefPause
		return c.step
	}
	message := c.giveUp()
	c.status.Phase, c.status.Probe = api.RestoreCancelled, ""
	c.ended(ReasonCancelled, message, r.Generation, now)
	c.set(api.ConditionCompleted, false, ReasonCancelled, message, r.Generation, now)
	c.normal(eventCancelled, message)
	c.free = true
	return c.step
}

// askAgainFor is how long containers that restore and tell nothing are asked again
// how far they are, before their data are taken to be half replaced.
const askAgainFor = 10 * time.Second

// unanswered are the pods whose restore container runs for the first time, and has not
// told how far it is: it has been started just now, or is busy.
func (c *course) unanswered() (names []string) {
	c.each(func(at *api.PodRestore, s seen) {
		p, ok := c.w.progress[at.Name]
		if s.sight == restoring && runsNow(s.pod) && at.Failures == 0 && firstTry(at, s) && !(ok && p.ID == c.status.ID) {
			names = append(names, at.Name)
		}
	})
	return names
}

func runsNow(pod *corev1.Pod) bool {
	status := restoreStatus(pod)
	return status != nil && status.State.Running != nil
}

// dangerText begins what is said of a volume whose data may be half replaced.
const dangerText = "DANGER: "

// movedOn takes back that a volume is untouched where the container, before it was
// ended, began to replace data all the same.
func (c *course) movedOn() {
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		p, ok := c.w.progress[at.Name]
		if at.Phase != api.PodCancelled || !ok || p.ID != c.status.ID || !replacing(p) || strings.HasPrefix(at.Message, dangerText) {
			continue
		}
		if _, listed := c.seen[at.Name]; listed && len(c.r.Status.Pending) > 0 {
			continue // it has been judged by this very report
		}
		text := c.half(at)
		at.Message = workload.Clip(text, failureLimit)
		c.say = append(c.say, saying{pod: c.w.pods[at.Name], kind: corev1.EventTypeWarning, reason: eventVolume, message: fmt.Sprintf("pod %s, restore cancelled: %s", at.Name, text)})
	}
}

// ending tells whether a restore container is being ended just now, and may still
// begin to replace data: for as long as its pod is given to end, not longer.
func (c *course) ending() bool {
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		pod := c.w.pods[at.Name]
		if at.Phase == api.PodCancelled && pod != nil && pod.DeletionTimestamp != nil && c.status.ID != "" && restoreID(pod) == c.status.ID && runsNow(pod) &&
			c.now.Before(pod.DeletionTimestamp.Time) && !strings.HasPrefix(at.Message, dangerText) {
			return true
		}
	}
	return false
}

// giveUp marks the pods that are not restored, and says what is left of the Restore.
func (c *course) giveUp() string {
	var half []string
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		if at.Phase == api.PodRestored {
			continue
		}
		if c.r.Spec.Mode == api.Merge && at.Phase != api.PodPlanned && at.Phase != api.PodCancelled {
			at.Message = "its sidecar goes on writing keys until it is done; those that are written stay"
		}
		at.Phase = api.PodCancelled
		if strings.HasPrefix(at.Message, dangerText) {
			half = append(half, at.Name)
		}
	}
	if is, _ := condition(&c.status, api.ConditionPrechecked); !is {
		c.status.Progress = api.RestoreProgress{}
		return "cancelled before a pod was touched"
	}
	text := fmt.Sprintf("cancelled with %s pods restored; status.pods says in what state the volume of each is", c.status.Progress.Pods)
	if len(half) == 0 {
		return text
	}
	pods, them := "pod", "it"
	if len(half) > 1 {
		pods, them = "pods", "them"
	}
	return fmt.Sprintf("%s%s %s may have half-replaced data: restore %s again by a new Restore, before %s used (status.pods tells more); %s", dangerText, pods, few(half), them, verb(len(half), "it is", "they are"), text)
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
		at.Phase = api.PodCancelled
		if at.Started != nil {
			at.Finished = new(metav1.NewTime(c.now))
		}
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
		if _, listed := c.seen[at.Name]; listed || at.Phase == api.PodRestored || c.status.ID == "" || c.joins(at) || c.replayed(at) {
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
	case restored: // in mode Remote, and of Anna
		if c.replayed(at) {
			return c.half(at), true
		}
		return "the volume holds the restored data, but the node has not been Ready yet; from now on its tokens do not reach it when it starts again", true
	case unclear:
		return "the restore container ended well, but its outcome is not known; the sidecar's report tells what the volume holds", true
	case restoring:
		p, ok := c.w.progress[at.Name]
		if ok && p.ID == c.status.ID && !replacing(p) && at.Failures == 0 && firstTry(at, s) {
			return "the volume is untouched; what was downloaded is discarded", false
		}
	case replaced:
		if at.Failures == 0 && firstTry(at, s) && restoreStatus(s.pod) == nil {
			return "the volume is untouched", false
		}
	default:
		if at.Failures == 0 && firstTry(at, s) {
			return "the volume is untouched", false
		}
	}
	return c.half(at), true
}

// half says that the data of a pod may be half replaced, and what to do.
func (c *course) half(at *api.PodRestore) string {
	if c.replayed(at) {
		return fmt.Sprintf("%sthe cluster was emptied for the restore, and of the keys of this pod's part %d of %d are known to be written again; its sidecar goes on with them for as long as the pod is there. Restore the cluster again, by a new Restore of %s, before it is used", dangerText, at.Keys, at.KeysTotal, c.again(at))
	}
	return dangerText + "the data on the volume may be half replaced, and the database now starts with them. Restore the pod again, by a new Restore of " + c.again(at) + ", before it is used"
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
