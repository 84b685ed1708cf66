package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule"
	"github.com/stategraft/stategraft/workload"
)

const (
	messageLimit = 1024
	// lookEvery is how long a schedule is left alone at most: a clock that was put is
	// noticed by then.
	lookEvery = time.Hour
)

// step is what a schedule does next, in this order: the status is written, the events
// are told, then come the deeds, which what was written allows.
type step struct {
	status api.BackupScheduleStatus
	say    []saying

	keep   []*api.Backup // are given back the policy to keep their data
	cancel []*api.Backup
	create *api.Backup
	remove *removal
	forget []*api.Backup // objects of which the storage has nothing

	at time.Time // when to look again; zero, when something changes
}

// saying is an event about the schedule and, where there is one, a Backup of it.
type saying struct {
	kind, reason, note string
	backup             *api.Backup
}

func (st *step) tell(kind, reason, note string, about *api.Backup) {
	st.say = append(st.say, saying{kind, reason, note, about})
}

// look has the schedule looked at again at a time, or sooner.
func (st *step) look(at time.Time) {
	if !at.IsZero() && (st.at.IsZero() || at.Before(st.at)) {
		st.at = at
	}
}

// set sets a condition, and tells whether it or its reason has changed.
func (st *step) set(s *api.BackupSchedule, kind string, value metav1.ConditionStatus, reason, message string, now time.Time) (changed bool) {
	before := meta.FindStatusCondition(st.status.Conditions, kind)
	changed = before == nil || before.Status != value || before.Reason != reason
	meta.SetStatusCondition(&st.status.Conditions, metav1.Condition{Type: kind, Status: value, Reason: reason,
		Message: workload.Clip(message, messageLimit), ObservedGeneration: s.Generation, LastTransitionTime: stamp(now)})
	return changed
}

// stamp is a time as the API server keeps it, to the second: with more, what is read
// would never be what was written.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

func stampOrNil(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(stamp(t))
}

// next is what a schedule does next, but for retention.
func next(s *api.BackupSchedule, w *world, now time.Time) (*step, asked) {
	st := &step{status: *s.Status.DeepCopy()}
	st.status.ObservedGeneration = s.Generation
	st.begin(s, now)
	st.recount(s, w, now)

	a, wrong := read(s, st.status.Since.Time)
	if wrong != nil {
		st.refuse(s, wrong, now)
		return st, a
	}
	st.set(s, api.ConditionAccepted, metav1.ConditionTrue, ReasonAccepted, "it is followed", now)
	st.look(now.Add(lookEvery))

	d := schedule.Decide(now, a.spec, schedule.State{Last: st.last(s, w, now), Active: w.active(now), Deleting: w.deleting()})
	switch d.Action {
	case schedule.Run:
		st.run(s, w, d, now)
	case schedule.Skip:
		st.skip(s, d, now)
	case schedule.Wait:
		st.wait(s, w, a, d, now)
	}
	st.look(d.At)
	st.status.Next = stampOrNil(d.Next)
	st.onTime(s, w, a, d, now)
	st.trimHistory(s)
	return st, a
}

// begin notes since when the schedule is what it is.
func (st *step) begin(s *api.BackupSchedule, now time.Time) {
	is := of(s)
	switch {
	case st.status.Since == nil || st.status.Of == "":
		st.status.Since = new(stamp(s.CreationTimestamp.Time))
	case st.status.Of != is:
		st.status.Since = new(stamp(now))
	}
	st.status.Of = is
}

// refuse says why the spec cannot be followed.
func (st *step) refuse(s *api.BackupSchedule, wrong *problem, now time.Time) {
	st.status.Next = nil
	st.status.Message = workload.Clip("no backup is made: "+wrong.message, messageLimit)
	if st.set(s, api.ConditionAccepted, metav1.ConditionFalse, wrong.reason, wrong.message, now) {
		st.tell(corev1.EventTypeWarning, eventRefused, wrong.message, nil)
	}
	st.set(s, api.ConditionOnTime, metav1.ConditionFalse, ReasonNotFollowed, "its spec cannot be followed: "+wrong.message, now)
	st.trimHistory(s)
}

// last is the time of the latest run. That of a Backup which is there counts though the
// status were lost, or be read from before it was written. What a clock that was ahead
// has made does not count: it would hide those that do.
func (st *step) last(s *api.BackupSchedule, w *world, now time.Time) (last time.Time) {
	later := func(t time.Time) {
		if t.After(last) && !future(t, now) {
			last = t
		}
	}
	if st.status.LastScheduled != nil {
		later(st.status.LastScheduled.Time)
	}
	for _, b := range w.own {
		if at, ok := schedule.Scheduled(s.Name, b.Name); ok {
			later(at)
		}
	}
	return last
}

// clockSlack is how far clocks may be apart: what is of later than that is of one that
// was wrong.
const clockSlack = time.Hour

func future(t, now time.Time) bool { return t.After(now.Add(clockSlack)) }

// run begins a run: what is written has its Backup's name.
func (st *step) run(s *api.BackupSchedule, w *world, d schedule.Decision, now time.Time) {
	st.giveUp(w, "the next run was due before it could be made", now)
	run := api.ScheduleRun{Scheduled: stamp(d.Scheduled), Backup: schedule.Name(s.Name, d.Scheduled), Outcome: api.RunActive, Reason: string(d.Reason)}
	if d.Missed > 0 {
		run.Message = d.Message
	}
	st.status.LastScheduled, st.status.Pending, st.status.Active = &run.Scheduled, run.Backup, run.Backup
	st.status.Missed += int32(d.Missed)
	st.status.History = append([]api.ScheduleRun{run}, st.status.History...)
	st.status.Message = workload.Clip("makes "+d.Message, messageLimit)
	st.create = makeBackup(s, run)
	for _, name := range d.Cancel {
		st.end(w.find(name), s, now)
	}
	st.tell(corev1.EventTypeNormal, eventScheduled, "makes "+d.Message+" as Backup "+run.Backup, nil)
	st.look(now.Add(retryCreate))
}

// end cancels a Backup for the sake of a later run.
func (st *step) end(b *api.Backup, s *api.BackupSchedule, now time.Time) {
	if b == nil || b.Spec.Cancel || b.DeletionTimestamp != nil {
		return
	}
	st.cancel = append(st.cancel, b)
	why := "concurrencyPolicy is Replace, and the next run is due"
	if now.After(until(b)) {
		why = "it is not over " + overdueBy.String() + " after its timeout, and the next run is due"
	}
	st.tell(corev1.EventTypeWarning, eventCancelled, "cancels Backup "+b.Name+": "+why, b)
}

// skip leaves a run out.
func (st *step) skip(s *api.BackupSchedule, d schedule.Decision, now time.Time) {
	run := api.ScheduleRun{Scheduled: stamp(d.Scheduled), Outcome: api.RunSkipped, Reason: string(d.Reason), Message: d.Message}
	st.status.LastScheduled = &run.Scheduled
	st.status.Missed += int32(1 + d.Missed)
	st.status.History = append([]api.ScheduleRun{run}, st.status.History...)
	st.status.Message = workload.Clip(d.Message, messageLimit)
	st.tell(corev1.EventTypeWarning, eventSkipped, d.Message, nil)
	st.look(now.Add(time.Second))
}

// wait makes the Backup that was begun and is not there, unless it is too late for it,
// and ends what is stuck.
func (st *step) wait(s *api.BackupSchedule, w *world, a asked, d schedule.Decision, now time.Time) {
	st.status.Message = workload.Clip(d.Message, messageLimit)
	for _, name := range d.Cancel {
		st.end(w.find(name), s, now)
	}
	if st.status.Pending == "" {
		return
	}
	at, ok := schedule.Scheduled(s.Name, st.status.Pending)
	late := now.Sub(at) - schedule.Delay(a.spec.UID, a.spec.Jitter)
	switch limit := a.spec.StartingDeadline; {
	case s.Spec.Suspend:
		st.giveUp(w, "the schedule was suspended before it was made", now)
	case !ok, future(at, now):
		st.giveUp(w, "status.pending is no name of a run", now)
	case limit != nil && late > *limit:
		st.giveUp(w, "it could not be made within startingDeadline", now)
	default:
		run := api.ScheduleRun{Scheduled: stamp(at), Backup: st.status.Pending}
		st.create = makeBackup(s, run)
		for _, b := range w.own { // what was begun with the run, but not finished
			if a.spec.Concurrency == schedule.Replace && b.Name != run.Backup && running(b, now) && !b.Found() {
				st.end(b, s, now)
			}
		}
		st.look(now.Add(retryCreate))
	}
	if w.refusal != "" {
		st.status.Message = workload.Clip("the backup cannot be made: "+w.refusal, messageLimit)
	}
}

// giveUp leaves out the run whose Backup was to be made, if there is one.
func (st *step) giveUp(w *world, why string, now time.Time) {
	name := st.status.Pending
	if name == "" {
		return
	}
	if w.refusal != "" {
		why += ": " + w.refusal
	}
	for i := range st.status.History {
		if run := &st.status.History[i]; run.Backup == name {
			run.Outcome, run.Backup, run.Finished, run.Message = api.RunSkipped, "", stampOrNil(now), workload.Clip(why, messageLimit)
		}
	}
	st.status.Missed++
	st.status.Pending = ""
	if st.status.Active == name {
		st.status.Active = ""
	}
	st.tell(corev1.EventTypeWarning, eventSkipped, "Backup "+name+" is left out: "+why, nil)
}
