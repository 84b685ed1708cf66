package scheduler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// historyRoom is how many runs the CustomResourceDefinition has room for.
const historyRoom = 100

// recount brings what the status says of runs up to what their Backups say.
func (st *step) recount(s *api.BackupSchedule, w *world, now time.Time) {
	if st.status.Pending != "" && w.find(st.status.Pending) != nil {
		st.status.Pending = ""
	}
	for i := range st.status.History {
		if run := &st.status.History[i]; run.Outcome == api.RunActive && run.Backup != st.status.Pending {
			st.ended(run, w.find(run.Backup))
		}
	}
	st.status.Active = st.status.Pending
	for _, b := range w.own {
		if !b.Found() && !b.Status.Phase.Final() && !w.going(b) {
			st.status.Active = b.Name
			break
		}
	}
	st.complete(w, now)
}

// ended notes what came of a run that went on; nil is a Backup that has gone.
func (st *step) ended(run *api.ScheduleRun, b *api.Backup) {
	switch {
	case b != nil && meta.IsStatusConditionTrue(b.Status.Conditions, api.ConditionCompleted): // also of one that is being deleted
		run.Outcome, run.Finished = api.RunOutcome(api.BackupComplete), b.Status.Finished
		return
	case b == nil, !b.Status.Phase.Final() && (b.Status.Phase == api.BackupDeleting || b.DeletionTimestamp != nil && !b.Keeps()):
		run.Outcome, run.Message = api.RunOutcome(api.BackupCancelled), "its Backup was deleted before it was over"
	case b.Status.Phase.Final():
		run.Outcome, run.Finished = api.OutcomeOf(b.Status.Phase), b.Status.Finished
		if b.Status.Phase == api.BackupComplete {
			return
		}
		run.Message = workload.Clip(b.Status.Message, messageLimit)
	default:
		return
	}
	note := "Backup " + run.Backup + " is not complete, but " + string(run.Outcome)
	if run.Message != "" {
		note += ": " + run.Message
	}
	st.tell(corev1.EventTypeWarning, eventRunFailed, note, b)
}

// complete notes the newest complete Backup. A newer one than before makes good for
// what was missed until then.
func (st *step) complete(w *world, now time.Time) {
	var newest *api.Backup
	for _, b := range w.own {
		if b.Status.Phase == api.BackupComplete && b.Status.Finished != nil && !future(b.Status.Finished.Time, now) && !w.going(b) &&
			(newest == nil || b.Status.Finished.After(newest.Status.Finished.Time)) {
			newest = b
		}
	}
	before := st.status.LastComplete
	if newest == nil {
		st.status.LastComplete = nil
		return
	}
	st.status.LastComplete = &api.ScheduledBackup{Backup: newest.Name, Finished: newest.Status.Finished}
	if before != nil && before.Finished != nil && !future(before.Finished.Time, now) && !newest.Status.Finished.After(before.Finished.Time) {
		return
	}
	st.status.Missed = 0
	for _, run := range st.status.History { // those that were left out while it was made
		if run.Backup == newest.Name {
			break
		}
		if run.Outcome == api.RunSkipped && newest.Status.Started != nil && run.Scheduled.After(newest.Status.Started.Time) {
			st.status.Missed++
		}
	}
}

// trimHistory keeps as many runs as are asked for, and those that go on, of which the
// outcome is still to be told; but never more than the CustomResourceDefinition has room
// for.
func (st *step) trimHistory(s *api.BackupSchedule) {
	n := 0
	st.status.History = slices.DeleteFunc(st.status.History, func(run api.ScheduleRun) bool {
		n++
		return n > historyRoom || n > s.Spec.HistoryOrDefault() && run.Outcome != api.RunActive
	})
	if len(st.status.History) == 0 {
		st.status.History = nil
	}
}
