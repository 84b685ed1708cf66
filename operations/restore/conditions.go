package restore

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of conditions that are no Problem's.
const (
	ReasonAccepted  = "Accepted"
	ReasonPassed    = "Passed"
	ReasonPlanned   = "Planned"
	ReasonDeleting  = "DeletingPods"
	ReasonStopped   = "AllStopped"
	ReasonRestoring = "Restoring"
	ReasonCompleted = "AllRestored"
	ReasonDeadline  = "DeadlineExceeded"
	ReasonCancelled = "Cancelled"
	ReasonSuspended = "Suspended"
	ReasonResumed   = "Resumed"
	ReasonStorage   = "StorageUnreachable"
	ReasonLookingUp = "LookingUp"
)

// messageLimit keeps a status small however many pods it tells of.
const messageLimit = 1024

// set sets a condition of the step's status.
func (s *step) set(kind string, status bool, reason, message string, generation int64, now time.Time) {
	value := metav1.ConditionFalse
	if status {
		value = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&s.status.Conditions, metav1.Condition{Type: kind, Status: value, Reason: reason,
		Message: workload.Clip(message, messageLimit), ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now)})
}

// condition tells the status and the time of a condition.
func condition(status *api.RestoreStatus, kind string) (is bool, since time.Time) {
	c := meta.FindStatusCondition(status.Conditions, kind)
	if c == nil {
		return false, time.Time{}
	}
	return c.Status == metav1.ConditionTrue, c.LastTransitionTime.Time
}

// ended sets the conditions of the courses that are over.
func (s *step) ended(reason, message string, generation int64, now time.Time) {
	for _, kind := range []string{api.ConditionStopping, api.ConditionRestoring} {
		if is, _ := condition(&s.status, kind); is {
			s.set(kind, false, reason, message, generation, now)
		}
	}
	if s.status.Finished == nil {
		s.status.Finished = new(metav1.NewTime(now))
	}
	s.status.Message = workload.Clip(message, messageLimit)
	s.forgotten = true
}
