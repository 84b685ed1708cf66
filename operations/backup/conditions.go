package backup

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of conditions that are no Problem's.
const (
	ReasonAccepted    = "Accepted"
	ReasonPlanned     = "Planned"
	ReasonSuspended   = "Suspended"
	ReasonComplete    = "AllComplete"
	ReasonPodsFailed  = "PodsFailed"
	ReasonKeysMissing = "KeysMissing"
	ReasonDeadline    = "DeadlineExceeded"
	ReasonCancelled   = "Cancelled"
	ReasonChecked     = "Checked"
)

// set sets a condition of the step's status.
func (s *step) set(kind string, status bool, reason, message string, generation int64, now time.Time) {
	value := metav1.ConditionFalse
	if status {
		value = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&s.status.Conditions, metav1.Condition{Type: kind, Status: value, Reason: reason,
		Message: workload.Clip(message, messageLimit), ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))})
}

// accepted tells whether the pods are settled.
func accepted(status *api.BackupStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, api.ConditionAccepted)
}

// reasonOf is the reason of a condition; empty where there is none.
func reasonOf(status *api.BackupStatus, kind string) string {
	if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

// stamp is a time as the API server keeps it, in whole seconds: with more it would be
// another one at each look.
func stamp(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t.Truncate(time.Second)))
}
