package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule"
)

// The reasons of the condition OnTime; Busy, Cleaning and TooLate are those of a
// decision.
const (
	ReasonOnTime      = "OnTime"
	ReasonSuspended   = "Suspended"   // Unknown
	ReasonNotFollowed = "NotFollowed" // the spec is refused
	ReasonNotMade     = "NotMade"     // the API server refuses the Backup
	ReasonStuck       = "Stuck"       // one is not over after its timeout
	ReasonIncomplete  = "LastNotComplete"
	ReasonBusy        = string(schedule.Busy)
	ReasonCleaning    = string(schedule.Cleaning)
	ReasonTooLate     = string(schedule.TooLate)
)

const (
	// waitUnsaid is how long a run may wait for others without being called late.
	waitUnsaid = time.Minute
	// retryCreate is when a Backup that the API server refused is asked for again.
	retryCreate = time.Minute
)

// onTime says whether backups are made when they should be.
func (st *step) onTime(s *api.BackupSchedule, w *world, a asked, d schedule.Decision, now time.Time) {
	value, reason, message := metav1.ConditionFalse, "", ""
	late := now.Sub(d.Scheduled) - schedule.Delay(a.spec.UID, a.spec.Jitter)
	stuck := st.stuck(w, now)
	run := st.latestEnded()
	switch {
	case d.Reason == schedule.Suspended:
		value, reason, message = metav1.ConditionUnknown, ReasonSuspended, d.Message
	case st.status.Pending != "" && w.refusal != "":
		reason, message = ReasonNotMade, "Backup "+st.status.Pending+" cannot be made: "+w.refusal
	case stuck != nil:
		reason, message = ReasonStuck, "Backup "+stuck.Name+" is not over "+overdueBy.String()+" after its timeout"
	case d.Action == schedule.Wait && !d.Scheduled.IsZero() && late >= waitUnsaid:
		reason, message = string(d.Reason), d.Message
	case run == nil:
		if c := meta.FindStatusCondition(st.status.Conditions, api.ConditionOnTime); c != nil && c.Status == metav1.ConditionFalse && st.status.Active != "" {
			return // one that tells of no runs: as it was, until the next has ended
		}
		value, reason, message = metav1.ConditionTrue, ReasonOnTime, "no run has ended yet"
	case run.Outcome == api.RunSkipped:
		reason, message = ReasonTooLate, run.Message
		if run.Reason != string(schedule.TooLate) {
			reason = ReasonNotMade
		}
	case run.Outcome == api.RunOutcome(api.BackupComplete) || run.Outcome == api.RunOutcome(api.BackupMissing):
		value, reason, message = metav1.ConditionTrue, ReasonOnTime, "the last run is complete"
	default:
		reason, message = ReasonIncomplete, "the last run, Backup "+run.Backup+", is not complete: "+run.Message
	}
	if st.set(s, api.ConditionOnTime, value, reason, message, now) && value == metav1.ConditionFalse {
		switch reason {
		case ReasonBusy, ReasonCleaning, ReasonStuck, ReasonNotMade:
			if st.status.Pending != "" || reason != ReasonNotMade { // else it is told already
				st.tell(corev1.EventTypeWarning, eventLate, message, stuck)
			}
		}
	}
}

// stuck is a Backup of the schedule that should be over and is not.
func (st *step) stuck(w *world, now time.Time) *api.Backup {
	for _, b := range w.own {
		if running(b, now) && !b.Found() && now.After(until(b)) {
			return b
		}
	}
	return nil
}

// latestEnded is the latest run that does not go on.
func (st *step) latestEnded() *api.ScheduleRun {
	for i := range st.status.History {
		if run := &st.status.History[i]; run.Outcome != api.RunActive {
			return run
		}
	}
	return nil
}
