package backup

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// world is what was read and asked a moment ago. Of it only that is there which the
// stage of the Backup needs.
type world struct {
	verdict *verdict        // of the acceptance
	pods    map[string]seen // of those that are not final yet
	stored  *node.Backup    // what the storage has of the backup; nil if it was not asked
	doubt                   // why the storage could not tell
	busy    string          // why nobody may begin now
	limit   time.Duration   // how long a pod that is not there is waited for
	renew   bool            // what is in the way may be told in other words
}

// sight is what a pod looks like.
type sight int

const (
	unseen         sight = iota // it was not asked this time
	absentSight                 // there is none
	silentSight                 // it does not answer
	troubledSight               // it answers, and does not get at the storage
	idleSight                   // it knows no such backup, and makes none
	busySight                   // it knows no such backup yet, and makes one
	runningSight                // it makes this backup
	succeededSight              // it has finished this backup
	failedSight                 // it has given this backup up
)

// seen is what was seen of a pod.
type seen struct {
	sight
	uid      types.UID
	leaving  bool      // it is being deleted
	reported bool      // node and prefix are known
	node     string    // its name in backups
	prefix   string    // where its backups go now
	busyWith string    // the backup that a busy one makes, where it tells
	instead  string    // what a busy one of Anna does instead of a backup; empty for that it makes one
	log      string    // the container that makes the backup, whose log tells of it
	why      string    // of one that does not answer, or not well
	since    time.Time // when it was absent or silent first, as this process knows
	// asked tells that this process has asked its sidecar for the try that is written
	// down. Whoever wrote it may have ended before.
	asked   bool
	stuck   string // why its part in the storage cannot be discarded
	trouble        // what its storage says
	// refusedSince is since when it refuses a troubled one, as this process knows.
	refusedSince time.Time
}

// stage is what a Backup is about next.
type stage int

const (
	stageAccept stage = iota
	stageRun
	stageOver
	stageDelete
)

func stageOf(b *api.Backup) stage {
	runs := !b.Found() && accepted(&b.Status) && !b.Status.Phase.Final() && b.Status.Phase != api.BackupDeleting && !b.Spec.DryRun
	switch {
	case runs:
		return stageRun
	case b.DeletionTimestamp != nil:
		return stageDelete
	case b.Found() || b.Status.Phase.Final():
		return stageOver
	}
	return stageAccept
}

// cancelled tells whether nobody wants the backup any more.
func cancelled(b *api.Backup) bool { return b.Spec.Cancel || b.DeletionTimestamp != nil }

// next is the next step of a Backup that is not being deleted. It is a function of
// the object and of what was read, so that a controller that starts anew goes on where
// another ended.
func next(b *api.Backup, w world, now time.Time) step {
	switch stageOf(b) {
	case stageAccept:
		return accept(b, w, now)
	case stageRun:
		return run(b, w, now)
	}
	s := start(b)
	s.hold = !held(b) && b.DeletionTimestamp == nil && b.Status.Phase != api.BackupPlanned && (b.Found() || b.Status.Name != "")
	return s
}

// accept settles the pods of a Backup, and begins at once with those that have told
// that they can.
func accept(b *api.Backup, w world, now time.Time) step {
	c := &course{step: start(b), b: b, w: w, now: now}
	c.status.ObservedGeneration, c.status.Origin = b.Generation, api.BackupMade
	switch v := w.verdict; {
	case b.Spec.Cancel:
		c.refuse(api.BackupCancelled, ReasonCancelled, "it was cancelled before it began")
	case !now.Before(deadline(b, &c.status)):
		c.refuse(api.BackupFailed, ReasonDeadline, fmt.Sprintf("it could not begin within %v; the last that was in the way: %s", b.Spec.TimeoutOrDefault(), orElse(c.status.Message, "nobody had looked at it")))
	case b.Spec.Suspend:
		c.wait(ReasonSuspended, "it is suspended, and not accepted yet")
	case v == nil:
	case b.Spec.DryRun:
		c.plan(v)
	case v.problem != nil && v.problem.Wait:
		c.wait(v.problem.Reason, v.problem.Message)
	case v.problem != nil:
		c.refuse(api.BackupFailed, v.problem.Reason, v.problem.Message)
	default:
		c.settle(v)
	}
	return c.step
}

// wait says why it is not accepted yet.
func (c *course) wait(reason, message string) {
	if reason != reasonOf(&c.status, api.ConditionAccepted) && reason != ReasonSuspended {
		c.normal(eventWaiting, message)
	}
	c.status.Phase, c.status.Message = api.BackupWaiting, workload.Clip(message, messageLimit)
	c.set(api.ConditionAccepted, false, reason, message, c.b.Generation, c.now)
}

// refuse ends a Backup that nothing was done for.
func (c *course) refuse(phase api.BackupPhase, reason, message string) {
	c.set(api.ConditionAccepted, false, reason, message, c.b.Generation, c.now)
	c.end(phase, reason, message)
}

// plan writes down what would be done.
func (c *course) plan(v *verdict) {
	c.status.Pods, c.status.Type = v.pods, c.b.Spec.TypeOrDefault()
	message := fmt.Sprintf("%s would be backed up, below %s%s", counted(len(v.pods), "pod"), prefixText(v.prefix), addedText(v.added))
	for _, at := range v.pods {
		if at.Phase == api.PodBackupFailed {
			message = fmt.Sprintf("%s of %s would be backed up, below %s; not %s: %s", countReady(v.pods), counted(len(v.pods), "pod"), prefixText(v.prefix), at.Name, at.Message)
			break
		}
	}
	if p := v.problem; p != nil && p.Wait {
		message = "it would wait: " + p.Message
	} else if p != nil {
		message = "it would be refused: " + p.Message
	}
	c.count()
	c.status.Phase, c.status.Message, c.status.Finished = api.BackupPlanned, workload.Clip(message, messageLimit), stamp(c.now)
	c.set(api.ConditionAccepted, false, ReasonPlanned, message, c.b.Generation, c.now)
}

// addedText says which pods come along.
func addedText(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; a cluster of Anna is backed up as a whole, so " + someOf(names) + " too"
}

func countReady(pods []api.PodBackup) string {
	n := 0
	for _, at := range pods {
		if at.Phase == api.PodBackupWaiting {
			n++
		}
	}
	return fmt.Sprint(n)
}

// settle accepts it.
func (c *course) settle(v *verdict) {
	c.hold = !held(c.b)
	c.status.Name, c.status.Prefix, c.status.Type = c.b.StorageName(), v.prefix, c.b.Spec.TypeOrDefault()
	c.status.Started, c.status.Pods = stamp(c.now), v.pods
	c.set(api.ConditionAccepted, true, ReasonAccepted, fmt.Sprintf("%s, below %s, as %s%s", counted(len(v.pods), "pod"), prefixText(v.prefix), c.status.Name, addedText(v.added)), c.b.Generation, c.now)
	c.w.pods = v.seen
	c.advance()
}

// course is the step in the making.
type course struct {
	step
	b   *api.Backup
	w   world
	now time.Time
}

// run takes the pods of an accepted Backup to their end.
func run(b *api.Backup, w world, now time.Time) step {
	c := &course{step: start(b), b: b, w: w, now: now}
	c.status.ObservedGeneration = b.Generation
	c.hold = !held(b) && b.DeletionTimestamp == nil
	if !now.Before(deadline(b, &c.status)) {
		c.overdue()
		return c.step
	}
	c.advance()
	return c.step
}

// advance takes every pod as far as it goes, and the Backup with them.
func (c *course) advance() {
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		if !at.Phase.Final() {
			c.observe(at, c.w.pods[at.Name])
		}
	}
	c.giveUp()
	c.turn()
	c.count()
	if c.over() {
		c.finish("")
		return
	}
	c.tell()
}

// over tells whether every pod is final.
func (c *course) over() bool {
	for i := range c.status.Pods {
		if !c.status.Pods[i].Phase.Final() {
			return false
		}
	}
	return true
}

// behind says something of a pod; what says it of something else begins with that.
func behind(name, message string) string {
	if ofElse(message) {
		return name + ": " + message
	}
	return name + " " + message
}

// ofElse tells whether a pod's message is about something of it, such as its storage.
func ofElse(message string) bool {
	return strings.HasPrefix(message, "the ") || strings.HasPrefix(message, "its ")
}

// tell says how far it is. Nothing in it changes by time alone, as each change is
// written.
func (c *course) tell() {
	by := map[api.PodBackupPhase]int{}
	var waits, troubles []string
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		by[at.Phase]++
		if at.Phase == api.PodBackupWaiting && at.Message != "" {
			waits = append(waits, behind(at.Name, at.Message))
		} else if !at.Phase.Final() && at.Message != "" {
			troubles = append(troubles, at.Name+": "+at.Message)
		}
	}
	c.status.Phase = api.BackupRunning
	if by[api.PodBackupRunning]+by[api.PodBackupChecking] == 0 {
		c.status.Phase = api.BackupWaiting
	}
	parts := []string{fmt.Sprintf("%d of %s complete", by[api.PodBackupComplete], counted(len(c.status.Pods), "pod"))}
	for _, p := range []struct {
		n    int
		what string
	}{{by[api.PodBackupRunning], "upload"}, {by[api.PodBackupChecking], "are looked at in the storage"}, {by[api.PodBackupFailed] + by[api.PodBackupGone], "failed"}, {by[api.PodBackupWaiting], "wait"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	message := strings.Join(parts, ", ")
	switch {
	case cancelled(c.b):
		message = "is cancelled, and waits for what runs to end: " + message
	case c.b.Spec.Suspend:
		message = "is suspended, and begins no further pod: " + message
	case c.w.busy != "" && by[api.PodBackupWaiting] > 0:
		message += "; " + c.w.busy
	case len(waits) > 0:
		message += "; " + waits[0]
	case len(troubles) > 0:
		message += "; " + troubles[0]
	}
	c.status.Message = workload.Clip(message, messageLimit)
}
