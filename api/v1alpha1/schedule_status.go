package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The conditions of a BackupSchedule beside ConditionAccepted, which is False while
// its spec cannot be followed.
const (
	// ConditionOnTime is False while a run is late, left out or stuck, and when the last
	// one is not complete.
	ConditionOnTime = "OnTime"
	// ConditionRetained is False while retention cannot do what it should; what it
	// waits for is its reason.
	ConditionRetained = "Retained"
)

// RunOutcome is what came of a run.
type RunOutcome string

// The outcomes: that of its Backup, or that there is none.
const (
	RunActive  RunOutcome = "Active"
	RunSkipped RunOutcome = "Skipped"
)

// OutcomeOf is the outcome of a run whose Backup is in a phase.
func OutcomeOf(phase BackupPhase) RunOutcome {
	if phase == "" || phase == BackupWaiting || phase == BackupRunning {
		return RunActive
	}
	return RunOutcome(phase)
}

// BackupScheduleStatus is what a schedule has done, and does next.
type BackupScheduleStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Message says what happens, what is waited for, or what went wrong and what to do,
	// in a sentence.
	Message string `json:"message,omitempty"`

	// Since is when the schedule became what it is, which Of says in short: when it was
	// made, or its expression or time zone changed, or it was resumed. No run of a time
	// before is made up for.
	Since *metav1.Time `json:"since,omitempty"`
	Of    string       `json:"of,omitempty"`
	// LastScheduled is the time, by the schedule, of the latest run that was made or left
	// out: no run of that time or before is made any more. It is written before the
	// Backup is made, and the Backup's name follows from it: after a crash in between
	// it is made under the same name, and never twice.
	LastScheduled *metav1.Time `json:"lastScheduled,omitempty"`
	// Pending is the name of that Backup until it is there.
	Pending string `json:"pending,omitempty"`
	// Active is the Backup of this schedule that has not ended.
	Active string `json:"active,omitempty"`
	// Next is when the next run is due, its jitter included. None while suspended.
	Next *metav1.Time `json:"next,omitempty"`
	// LastComplete is the newest Backup of this schedule that is complete.
	// +optional
	LastComplete *ScheduledBackup `json:"lastComplete,omitempty"`
	// LastVerified is the newest restore on trial that passed.
	// +optional
	LastVerified *ScheduledBackup `json:"lastVerified,omitempty"`
	// NextVerification is when the next restore on trial is due.
	NextVerification *metav1.Time `json:"nextVerification,omitempty"`
	// Missed is how many runs were left out since the last one that was complete.
	Missed int32 `json:"missed,omitempty"`

	// History are the latest runs, the newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	History []ScheduleRun `json:"history,omitempty"`
	// Retention is what was kept and deleted when that was last decided.
	// +optional
	Retention *RetentionStatus `json:"retention,omitempty"`

	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ScheduledBackup is a Backup and when it, or its restore on trial, was finished.
type ScheduledBackup struct {
	Backup   string       `json:"backup"`
	Finished *metav1.Time `json:"finished,omitempty"`
}

// ScheduleRun is a run that was made or left out.
type ScheduleRun struct {
	Scheduled metav1.Time `json:"scheduled"`        // by the schedule
	Backup    string      `json:"backup,omitempty"` // none where it was left out
	// Outcome is Active, Skipped, or the phase that the Backup ended in.
	Outcome RunOutcome `json:"outcome"`
	// Reason is that of the decision, in a word: Due, Overdue, TooLate.
	Reason   string       `json:"reason,omitempty"`
	Finished *metav1.Time `json:"finished,omitempty"`
	Message  string       `json:"message,omitempty"` // why it was left out, or failed
}

// RetentionStatus is what retention has decided.
type RetentionStatus struct {
	Decided *metav1.Time `json:"decided,omitempty"`
	// DryRun says that nothing was deleted.
	DryRun bool  `json:"dryRun,omitempty"`
	Kept   int32 `json:"kept"` // Backups
	// Held is why nothing is deleted for now, in a word, such as BackupActive or
	// ListEmpty; Waiting says it in a sentence.
	Held    string `json:"held,omitempty"`
	Waiting string `json:"waiting,omitempty"`
	// Deleted are those that were, or with dryRun would be, with the reason; the newest
	// decisions first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Deleted []RetentionDecision `json:"deleted,omitempty"`
}

// RetentionDecision is a Backup that was deleted, or would be, and why.
type RetentionDecision struct {
	Backup  string       `json:"backup"`
	Name    string       `json:"name,omitempty"` // in the storage
	When    *metav1.Time `json:"when,omitempty"`
	Bytes   int64        `json:"bytes,omitempty"`
	Reason  string       `json:"reason"` // in a word: Expired, Abandoned
	Message string       `json:"message,omitempty"`
}
