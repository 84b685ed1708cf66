package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupSchedule makes Backups at times, deletes the old ones by rules, and restores
// the newest on trial. To delete it deletes no Backup.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=sgbs,categories=stategraft
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Suspend",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="Last complete",type=date,JSONPath=`.status.lastComplete.finished`
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.next`
// +kubebuilder:printcolumn:name="Kept",type=integer,JSONPath=`.status.retention.kept`
// +kubebuilder:printcolumn:name="Verified",type=date,JSONPath=`.status.lastVerified.finished`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Time zone",type=string,JSONPath=`.spec.timeZone`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
//
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 47",message="the name of a BackupSchedule has at most 47 characters, as its Backups are called after it and the time"
type BackupSchedule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BackupScheduleSpec   `json:"spec"`
	Status BackupScheduleStatus `json:"status,omitempty"`
}

// BackupScheduleList is a list of BackupSchedules.
//
// +kubebuilder:object:root=true
type BackupScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BackupSchedule `json:"items"`
}

// ConcurrencyPolicy says what becomes of a run that is due while an earlier one has
// not ended. That both run is not among them: a sidecar does not keep two backups
// apart.
//
// +kubebuilder:validation:Enum=Forbid;Replace
type ConcurrencyPolicy string

// Forbid has the new run wait until the earlier one is over, or it is too late by
// startingDeadline; Replace cancels the earlier one.
const (
	ConcurrencyForbid  ConcurrencyPolicy = "Forbid"
	ConcurrencyReplace ConcurrencyPolicy = "Replace"
)

// What counts where a BackupScheduleSpec says nothing.
const (
	DefaultHistoryLimit       = 10
	DefaultFailedHistoryLimit = 3
)

// BackupScheduleSpec is what is made, when, and what is kept of it.
type BackupScheduleSpec struct {
	// Schedule is when: a cron expression such as 0 3 * * * (minute, hour, day of the
	// month, month, day of the week), or @hourly, @daily, @weekly, @monthly, @yearly.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="!self.contains('TZ=')",message="it takes no time zone: say it in timeZone"
	// +kubebuilder:validation:XValidation:rule="self.contains('TZ=') || self.matches('^ *(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|[0-9*?,/A-Za-z-]+( +[0-9*?,/A-Za-z-]+){4}) *$')",message="it takes five fields (minute, hour, day of the month, month, day of the week) such as 0 3 * * *, or @hourly, @daily, @weekly, @monthly or @yearly"
	Schedule string `json:"schedule"`

	// TimeZone is that of the schedule, and of the days that retention counts, by its
	// name in the IANA database, such as Europe/Berlin. Left out it is UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$') && self != 'Local'",message="it takes the name of a time zone such as Europe/Berlin or UTC"
	TimeZone string `json:"timeZone,omitempty"`

	// Jitter spreads the runs of several schedules: each is later by a part of it, always
	// the same for this one. Left out, nothing is.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(h|m|s|ms))+$') && duration(self) <= duration('24h')",message="it takes a time up to 24h in h, m and s, such as 15m"
	Jitter *metav1.Duration `json:"jitter,omitempty"`

	// ConcurrencyPolicy says what becomes of a run that is due while an earlier one has
	// not ended: Forbid has it wait until that is over, or it is too late by
	// startingDeadline; Replace cancels the earlier one.
	// +optional
	// +kubebuilder:default=Forbid
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// StartingDeadline is how late a run may begin that could not begin in time. Left
	// out, however late. However many runs were missed, one is made up for.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(h|m|s|ms))+$') && duration(self) >= duration('1m')",message="it takes a time of at least 1m in h, m and s, such as 2h; leave it out to make up for a run however late"
	StartingDeadline *metav1.Duration `json:"startingDeadline,omitempty"`

	// Suspend makes no further Backup. What runs goes on, and retention deletes nothing.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// HistoryLimit is how many runs status.history tells of. Left out, 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	HistoryLimit *int32 `json:"historyLimit,omitempty"`
	// FailedHistoryLimit is how many Backups that are not complete stay as objects, the
	// newest. What the storage holds of the others goes by retention.incomplete. Left
	// out, 3.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	FailedHistoryLimit *int32 `json:"failedHistoryLimit,omitempty"`

	// Template is what each Backup is made from.
	Template BackupTemplate `json:"template"`

	// Retention says which of the Backups of this schedule are kept. Left out, all are.
	// +optional
	Retention *BackupRetention `json:"retention,omitempty"`

	// Verify restores the newest complete Backup on trial. Left out, none is.
	// +optional
	Verify *BackupVerify `json:"verify,omitempty"`
}

// BackupTemplate is what Backups are made from.
type BackupTemplate struct {
	// +optional
	Metadata BackupTemplateMetadata `json:"metadata,omitempty,omitzero"`
	// Spec is that of each Backup. Its pods are looked up at each run.
	// +kubebuilder:validation:XValidation:rule="!has(self.existing)",message="a schedule makes backups: give it pods in place of existing",fieldPath=".existing"
	// +kubebuilder:validation:XValidation:rule="!has(self.pinned) || !self.pinned",message="retention would never delete one: pin those to keep (kubectl stategraft backup pin)",fieldPath=".pinned"
	// +kubebuilder:validation:XValidation:rule="(!has(self.dryRun) || !self.dryRun) && (!has(self.cancel) || !self.cancel) && (!has(self.suspend) || !self.suspend)",message="dryRun, cancel and suspend are for a Backup that is there: suspend the schedule in its spec.suspend"
	Spec BackupSpec `json:"spec"`
}

// BackupTemplateMetadata is what is taken over into the metadata of each Backup.
type BackupTemplateMetadata struct {
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]string `json:"annotations,omitempty"`
}

// BackupRetention says which Backups of a schedule are kept: each that one of the rules
// keeps. Whatever they say, the newest complete one is kept, and what is pinned, and
// nothing is deleted while a backup of the cluster runs, or when the storage cannot be
// listed.
//
// +kubebuilder:validation:XValidation:rule="has(self.keepLast) || has(self.keepWithin) || has(self.keepDaily) || has(self.keepWeekly) || has(self.keepMonthly)",message="say what is kept, in keepLast, keepWithin, keepDaily, keepWeekly or keepMonthly; leave retention out to keep all"
type BackupRetention struct {
	// KeepLast keeps the newest complete ones, so many.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepLast *int32 `json:"keepLast,omitempty"`
	// KeepWithin keeps those that are not older than the newest complete one by more
	// than this, such as 36h, 14d or 8w: where no new ones come, none go.
	// +optional
	KeepWithin Period `json:"keepWithin,omitempty"`
	// KeepDaily keeps the last complete one of each of so many days that have one;
	// KeepWeekly of weeks from Monday, KeepMonthly of months, all in the schedule's time
	// zone.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepDaily *int32 `json:"keepDaily,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepWeekly *int32 `json:"keepWeekly,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	KeepMonthly *int32 `json:"keepMonthly,omitempty"`
	// Incomplete is how old those that are not complete become before they are deleted.
	// +optional
	// +kubebuilder:default="7d"
	Incomplete Period `json:"incomplete,omitempty"`
	// DryRun writes to the status and into events what would be deleted, and deletes
	// nothing.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// Period is a length of time in hours, days or weeks.
//
// +kubebuilder:validation:MaxLength=8
// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,3}(h|d|w)$')",message="it takes a number up to 9999 and h, d or w, such as 36h, 14d or 8w"
type Period string

// BackupVerify says how Backups are restored on trial: into a pod with the databases'
// own image, in which only its files are read. The cluster is not touched.
type BackupVerify struct {
	// Schedule is when, as spec.schedule, and in the same time zone.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="!self.contains('TZ=')",message="it takes no time zone: say it in spec.timeZone"
	// +kubebuilder:validation:XValidation:rule="self.contains('TZ=') || self.matches('^ *(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|[0-9*?,/A-Za-z-]+( +[0-9*?,/A-Za-z-]+){4}) *$')",message="it takes five fields (minute, hour, day of the month, month, day of the week) such as 0 5 * * 0, or @hourly, @daily, @weekly, @monthly or @yearly"
	Schedule string `json:"schedule"`
	// Nodes is how many nodes of the backup are restored, one after another, and others
	// the next time; 0 for all.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Nodes *int32 `json:"nodes,omitempty"`
	// Timeout is how long one may take from its beginning.
	// +optional
	// +kubebuilder:default="6h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(h|m|s|ms))+$') && duration(self) > duration('0s')",message="it takes a time longer than nothing in h, m and s, such as 6h or 1h30m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// Resources are those of the pod. Left out, little: 100m and 512Mi, at most 1 and
	// 2Gi.
	// +optional
	Resources *VerifyResources `json:"resources,omitempty"`
	// Volume is a claim for the data. Left out they are in an emptyDir, on the disk of
	// whichever node of Kubernetes the pod comes to.
	// +optional
	Volume *VerifyVolume `json:"volume,omitempty"`
}

// VerifyResources are requests and limits, as those of a container.
type VerifyResources struct {
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// VerifyVolume is a claim that is made for a restore on trial, and deleted after it.
type VerifyVolume struct {
	// Size is that of the claim; left out, what the backup needs, and a quarter.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// StorageClassName is that of the claim; left out, the cluster's default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}
