package restore

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// How long the API server may take to know of a pending list, until that is told.
const probeLimit = 15 * time.Second

// defaultDeadline is that of the CRD.
const defaultDeadline = 24 * time.Hour

// world is what was read a moment ago. Of it only that is there which the stage of
// the Restore needs.
type world struct {
	verdict  *verdict                 // of the acceptance or the prechecks
	pods     map[string]*corev1.Pod   // of the Restore, by name
	told     map[string]node.Done     // what volumes say of this restore, where a container's message is lost
	progress map[string]node.Progress // of the containers that answered
	kept     map[string]bool          // of these, whose volumes keep the data from before this restore
	replays  map[string]node.Replay   // of Anna: what sidecars that were asked tell of theirs, empty where of none
	silent   map[string]string        // why the others did not answer
	probe    probe
	// askAgain says that a Restore is cancelled, and containers that do not tell how far
	// they are may yet.
	askAgain bool
	// unlabelled says that the namespace has lost its label: nothing is added to pods
	// that come back, and they may not be deleted by us.
	unlabelled bool
}

// probe is what came of creating, in a dry run, a pod that the policy is to refuse.
type probe struct {
	refused bool   // by the policy: the API server knows the pending list
	other   string // why it was refused by something else
	failed  string // why there was no answer
}

// stage is what a Restore is about next.
type stage int

const (
	stageAccept stage = iota
	stageCheck
	stageRun
	stageCancel
	stageOver
)

func stageOf(r *api.Restore) stage {
	accepted, _ := condition(&r.Status, api.ConditionAccepted)
	checked, _ := condition(&r.Status, api.ConditionPrechecked)
	switch {
	case r.Status.Phase.Final() && len(r.Status.Pending) == 0:
		return stageOver
	case r.Spec.Cancel || r.DeletionTimestamp != nil:
		return stageCancel
	case checked:
		return stageRun
	case accepted:
		return stageCheck
	}
	return stageAccept
}

// next is the next step of a Restore. It is a function of the object and of what was
// read, so that a controller that starts anew goes on where another ended.
func next(r *api.Restore, w world, now time.Time) step {
	switch stageOf(r) {
	case stageAccept:
		return accept(r, w.verdict, now)
	case stageCheck:
		return check(r, w.verdict, now)
	case stageRun:
		return run(r, w, now)
	case stageCancel:
		return cancel(r, w, now)
	}
	s := begin(r)
	s.free, s.forgotten = held(r), true
	return s
}

// course is the step in the making, from the pending list to the end.
type course struct {
	step
	r    *api.Restore
	w    world
	now  time.Time
	seen map[string]seen // of the pods of the pending list
	// failed are the pods of Anna whose replay cannot go on, and why.
	failed map[string]string
}

func newCourse(r *api.Restore, w world, now time.Time) *course {
	c := &course{step: begin(r), r: r, w: w, now: now, seen: map[string]seen{}, failed: map[string]string{}}
	_, since := condition(&r.Status, api.ConditionPrechecked)
	for _, name := range r.Status.Pending {
		at := c.status.Pod(name)
		if at == nil {
			continue
		}
		var told *node.Done
		if done, ok := w.told[name]; ok {
			told = &done
		}
		c.seen[name] = look(w.pods[name], at, r.Status.ID, told, since)
	}
	return c
}

// run takes the pods of a Restore from the pending list to their restored data.
func run(r *api.Restore, w world, now time.Time) step {
	c := newCourse(r, w, now)
	if r.Spec.Mode == api.Merge {
		c.merge()
		return c.step
	}
	c.losses()
	c.observe()
	c.allReplayed()
	c.guard()
	if r.Status.Phase == api.RestoreFailed {
		c.late()
		return c.step
	}
	switch {
	case len(c.status.Pending) == 0:
		c.complete()
		return c.step
	case now.After(deadline(r)):
		c.overdue()
		return c.step
	case c.replayFails():
		return c.step
	}
	c.stop()
	c.liftTurn()
	c.liftStale()
	c.tellPhase()
	c.after = c.pause()
	return c.step
}

func deadline(r *api.Restore) time.Time {
	from, limit := r.CreationTimestamp.Time, defaultDeadline
	if r.Status.Started != nil {
		from = r.Status.Started.Time
	} else if _, waits := condition(&r.Status, api.ConditionAccepted); waits.After(from) {
		from = waits // not accepted yet, perhaps suspended before
	}
	if r.Spec.Deadline != nil {
		limit = r.Spec.Deadline.Duration
	}
	return from.Add(limit)
}

// each is for the pods of the list with what they look like, in the order of the list.
func (c *course) each(do func(at *api.PodRestore, s seen)) {
	for _, name := range c.status.Pending {
		if at := c.status.Pod(name); at != nil {
			do(at, c.seen[name])
		}
	}
}

// guard deletes pods that came back without their restore container. The policy
// refuses such a pod; this is for an API server that did not know it yet.
func (c *course) guard() {
	if c.w.unlabelled {
		return // they would come back the same; tellPhase says so
	}
	c.each(func(at *api.PodRestore, s seen) {
		if s.sight != bare {
			return
		}
		at.Phase = api.PodWaiting
		c.counted[outcomeMissing]++
		c.remove = append(c.remove, removal{pod: s.pod, kind: corev1.EventTypeWarning, reason: eventMissing,
			message: fmt.Sprintf("pod %s came up without the restore that %s has for it, and is deleted before its database is used; is the webhook up, and the policy %s installed?", at.Name, c.r.Name, policyName)})
	})
}

// stop deletes the pods that still run with what is to be replaced, all at once,
// when the API server is known to refuse them without their restore.
func (c *course) stop() {
	var running []*api.PodRestore
	c.each(func(at *api.PodRestore, s seen) {
		if s.sight == old {
			running = append(running, at)
		}
	})
	if len(running) == 0 || c.r.Spec.Suspend {
		return
	}
	if !c.heeded() {
		return
	}
	if !c.w.probe.refused {
		c.warn(eventUnproved, "whether the API server refuses pods without their restore could not be shown, as something else refuses them: "+c.w.probe.other)
	}
	for _, at := range running {
		at.Phase, at.Message = api.PodStopping, ""
		c.remove = append(c.remove, removal{pod: c.seen[at.Name].pod, kind: corev1.EventTypeNormal, reason: eventStopping,
			message: fmt.Sprintf("pod %s is deleted, to be restored when it comes back (%s)", at.Name, c.what(at))})
	}
}

// heeded tells whether the API server refuses the pods of the list without their
// restore. What it cannot be asked about it is taken to do, after a while.
func (c *course) heeded() bool {
	_, since := condition(&c.status, api.ConditionPrechecked)
	return c.w.probe.refused || c.w.probe.other != "" && c.now.Sub(since) >= probeLimit
}

// what says what is done to a pod, in words.
func (c *course) what(at *api.PodRestore) string {
	switch at.Action {
	case api.ActionEmpty:
		return "it starts without data, by Restore " + c.r.Name
	case api.ActionUndo:
		return "to the data from before " + c.status.UndoID + ", by Restore " + c.r.Name
	}
	text := "backup " + c.status.Backup
	if at.Node != "" && at.Node != at.Name {
		text += " of " + at.Node
	}
	return text + ", by Restore " + c.r.Name
}

// liftTurn lets pods be scheduled whose turn it is. A pod may have come back before
// the list is heeded, deleted by somebody else: let start, and deleted again in
// mid-restore, the next could come up without.
func (c *course) liftTurn() {
	if c.r.Spec.Suspend || !c.heeded() {
		return
	}
	for _, name := range c.turns() {
		if at := c.status.Pod(name); at.Started == nil { // from now on its data may be replaced
			at.Started = new(metav1.NewTime(c.now))
		}
		if at := c.status.Pod(name); c.replayed(at) {
			at.Process = process(c.seen[name].pod)
		}
		c.lift = append(c.lift, c.seen[name].pod)
	}
}

// turns are the pods whose turn it is: once no database of the group runs any more
// with what is to be replaced, so many at a time as were asked for.
func (c *course) turns() (names []string) {
	room, stopped := int(c.r.Spec.Parallel), true
	if room == 0 {
		room = len(c.status.Pods)
	}
	c.each(func(_ *api.PodRestore, s seen) {
		stopped = stopped && s.stopped()
		if s.sight == coming || s.sight == restoring {
			room--
		}
	})
	if back := c.memoryFirst(c.names(gated)); stopped && room > 0 {
		return back[:min(room, len(back))]
	}
	return nil
}

// liftStale lets a pod go on that is restored, was deleted since, and came back with
// the restore container of an admission that did not know: it finds that it is done.
func (c *course) liftStale() {
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		pod := c.w.pods[at.Name]
		if at.Phase == api.PodRestored && pod != nil && pod.DeletionTimestamp == nil && hasGate(pod) && restoreID(pod) == c.status.ID {
			c.lift = append(c.lift, pod)
		}
	}
}

// drop takes a pod off the pending list. The list is copied, as c.each walks it.
func (c *course) drop(name string) {
	c.status.Pending = slices.DeleteFunc(slices.Clone(c.status.Pending), func(n string) bool { return n == name })
	if len(c.status.Pending) == 0 {
		c.status.Pending = nil
	}
}
