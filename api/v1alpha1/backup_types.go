package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Backup is a backup of the databases of pods: asked for and made once, or found in
// the storage. The object and the data are two things: what becomes of the data when
// the object is deleted is spec.deletionPolicy.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=sgb,categories=stategraft
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.type`
// +kubebuilder:printcolumn:name="Pods",type=string,JSONPath=`.status.progress.pods`
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.status.progress.size`
// +kubebuilder:printcolumn:name="Finished",type=date,JSONPath=`.status.finished`
// +kubebuilder:printcolumn:name="Verified",type=string,JSONPath=`.status.verified.result`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.deletionPolicy`,priority=1
// +kubebuilder:printcolumn:name="Pinned",type=boolean,JSONPath=`.spec.pinned`,priority=1
// +kubebuilder:printcolumn:name="Name in storage",type=string,JSONPath=`.status.name`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
//
// Values are compared by what they mean: a client that knows the types writes a
// timeout of 24h as 24h0m0s, and leaves out what is zero.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'Accepted' && c.status == 'True') || ((has(self.spec.type) ? self.spec.type : 'differential') == (has(oldSelf.spec.type) ? oldSelf.spec.type : 'differential') && (has(self.spec.parallel) ? self.spec.parallel : 0) == (has(oldSelf.spec.parallel) ? oldSelf.spec.parallel : 0) && (has(self.spec.retries) ? self.spec.retries : 2) == (has(oldSelf.spec.retries) ? oldSelf.spec.retries : 2) && (has(self.spec.dryRun) ? self.spec.dryRun : false) == (has(oldSelf.spec.dryRun) ? oldSelf.spec.dryRun : false) && (has(self.spec.timeout) ? duration(self.spec.timeout) : duration('24h')) == (has(oldSelf.spec.timeout) ? duration(oldSelf.spec.timeout) : duration('24h')))",message="spec: of what was accepted only deletionPolicy, pinned, suspend and cancel can be changed: cancel this Backup (kubectl stategraft backup cancel) and make another under another name",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'Accepted' && c.status == 'True') || ((has(self.spec.pods) && has(self.spec.pods.names)) == (has(oldSelf.spec.pods) && has(oldSelf.spec.pods.names)) && (!(has(self.spec.pods) && has(self.spec.pods.names)) || self.spec.pods.names == oldSelf.spec.pods.names) && (has(self.spec.pods) && has(self.spec.pods.workload)) == (has(oldSelf.spec.pods) && has(oldSelf.spec.pods.workload)) && (!(has(self.spec.pods) && has(self.spec.pods.workload)) || self.spec.pods.workload == oldSelf.spec.pods.workload))",message="spec: of what was accepted only deletionPolicy, pinned, suspend and cancel can be changed: cancel this Backup (kubectl stategraft backup cancel) and make another under another name",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'Accepted' && c.status == 'True') || ((has(self.spec.pods) && has(self.spec.pods.selector)) == (has(oldSelf.spec.pods) && has(oldSelf.spec.pods.selector)) && (!(has(self.spec.pods) && has(self.spec.pods.selector)) || (has(self.spec.pods.selector.matchLabels) && self.spec.pods.selector.matchLabels.size() > 0 ? has(oldSelf.spec.pods.selector.matchLabels) && self.spec.pods.selector.matchLabels == oldSelf.spec.pods.selector.matchLabels : !has(oldSelf.spec.pods.selector.matchLabels) || oldSelf.spec.pods.selector.matchLabels.size() == 0) && (has(self.spec.pods.selector.matchExpressions) && self.spec.pods.selector.matchExpressions.size() > 0 ? has(oldSelf.spec.pods.selector.matchExpressions) && self.spec.pods.selector.matchExpressions == oldSelf.spec.pods.selector.matchExpressions : !has(oldSelf.spec.pods.selector.matchExpressions) || oldSelf.spec.pods.selector.matchExpressions.size() == 0)))",message="spec: of what was accepted only deletionPolicy, pinned, suspend and cancel can be changed: cancel this Backup (kubectl stategraft backup cancel) and make another under another name",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'Accepted' && c.status == 'True') || has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Accepted' && c.status == 'True')",message="status: once Accepted is True it stays so: delete the Backup to forget it",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.name) || has(self.status) && has(self.status.name) && self.status.name == oldSelf.status.name && has(self.status.prefix) == has(oldSelf.status.prefix) && (!has(self.status.prefix) || self.status.prefix == oldSelf.status.prefix)",message="status: name and prefix are where the data are, and stay as they are once name is written",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of a Backup has at most 63 characters, as it is part of its name in the storage"
type Backup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BackupSpec   `json:"spec"`
	Status BackupStatus `json:"status,omitempty"`
}

// BackupList is a list of Backups.
//
// +kubebuilder:object:root=true
type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Backup `json:"items"`
}

// BackupType says what is uploaded.
//
// +kubebuilder:validation:Enum=differential;full
type BackupType string

// A differential backup uploads what the storage does not hold yet and refers to the
// rest. It is as whole as a full one, and is restored in the same way. The words are
// those that Medusa writes into the storage.
const (
	BackupDifferential BackupType = "differential"
	BackupFull         BackupType = "full"
)

// DeletionPolicy says what becomes of the data when the object is deleted.
//
// +kubebuilder:validation:Enum=Keep;Delete
type DeletionPolicy string

// Keep is the default, as with a namespace all its objects are deleted. Who syncs
// later has a kept backup again.
const (
	DeletionKeep   DeletionPolicy = "Keep"
	DeletionDelete DeletionPolicy = "Delete"
)

// What counts where a BackupSpec says nothing. It is not written into the object: one
// that was found in the storage would show it as its own.
const (
	DefaultBackupType    = BackupDifferential
	DefaultBackupTimeout = 24 * time.Hour
	DefaultBackupRetries = 2
)

// BackupSpec is what is asked for. Once it is accepted only deletionPolicy, pinned,
// suspend and cancel can be changed.
//
// +kubebuilder:validation:XValidation:rule="has(self.pods) != has(self.existing)",message="say which pods to back up in pods, or which backup of the storage this is in existing, and not both"
// +kubebuilder:validation:XValidation:rule="has(self.existing) == has(oldSelf.existing) && (!has(self.existing) || self.existing == oldSelf.existing)",message="it says which backup this is: make another Backup for another",fieldPath=".existing",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.existing) || !has(self.type) && !has(self.timeout) && !has(self.retries) && (!has(self.parallel) || self.parallel == 0) && (!has(self.dryRun) || !self.dryRun) && (!has(self.suspend) || !self.suspend) && (!has(self.cancel) || !self.cancel)",message="a backup of the storage is not made again: beside existing there may be deletionPolicy and pinned"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.cancel) || !oldSelf.cancel || has(self.cancel) && self.cancel",message="a Backup that was cancelled stays so: make another under another name",fieldPath=".cancel",reason=FieldValueForbidden
type BackupSpec struct {
	// Pods are those to back up: of one cluster, as a backup is whole only with all
	// nodes of it. They are settled when the Backup is accepted.
	// +optional
	Pods *BackupPods `json:"pods,omitempty"`

	// Existing says which backup of the storage this is, in place of pods: one that
	// another object, another cluster or a person made.
	// +optional
	Existing *ExistingBackup `json:"existing,omitempty"`

	// Type is differential (upload what the storage does not hold yet; the result is as
	// whole as a full one) or full. Left out it is differential.
	// +optional
	Type BackupType `json:"type,omitempty"`

	// Parallel is how many pods are backed up at a time; 0 for all, which is nearest to
	// one point in time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Parallel int32 `json:"parallel,omitempty"`

	// Timeout is how long all may take from its acceptance, waiting and retries
	// included, such as 6h. What is not complete then has failed. Left out it is 24h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(h|m|s|ms))+$') && duration(self) > duration('0s')",message="it takes a time longer than nothing in h, m and s, such as 6h or 1h30m; leave it out for 24h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// Retries is how often the backup of a pod that failed is tried again. Left out it
	// is 2.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Retries *int32 `json:"retries,omitempty"`

	// DeletionPolicy says what becomes of the data in the storage when this object is
	// deleted: Keep leaves them, Delete deletes them first. It can be changed at any
	// time, also while the object is being deleted.
	// +optional
	// +kubebuilder:default=Keep
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Pinned keeps the data for good: retention leaves the Backup, and its data stay
	// when the object is deleted, whatever deletionPolicy says.
	// +optional
	Pinned bool `json:"pinned,omitempty"`

	// DryRun has the pods and what speaks against backing them up written to the
	// status, and nothing done.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// Suspend begins no further pod: what runs is let finish. The timeout goes on.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Cancel ends the Backup for good. A pod whose backup runs finishes it, and what is
	// in the storage is of a backup that is not complete.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
}

// BackupPods names pods, or selects them by their labels or their workload.
//
// +kubebuilder:validation:XValidation:rule="(has(self.names) ? 1 : 0) + (has(self.selector) ? 1 : 0) + (has(self.workload) ? 1 : 0) == 1",message="say which pods by one of workload, selector and names"
type BackupPods struct {
	// Workload is the object that makes the pods.
	// +optional
	Workload *BackupWorkload `json:"workload,omitempty"`
	// Selector selects pods by their labels: for a cluster of several workloads.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && self.matchLabels.size() > 0 || has(self.matchExpressions) && self.matchExpressions.size() > 0",message="an empty selector would be every pod of the namespace: give it matchLabels or matchExpressions"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && !has(e.values))",message="the operator of an expression is In or NotIn, with values, or Exists or DoesNotExist, without"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Names are those of the pods.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(n, n.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",message="they are names of pods of this namespace, without pod/ before them: lower case letters, digits, - and ."
	Names []string `json:"names,omitempty"`
}

// BackupWorkload is the controlling owner of pods.
type BackupWorkload struct {
	// Kind is that of the owner that the pods name, such as StatefulSet.
	// +optional
	// +kubebuilder:default=StatefulSet
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z][A-Za-z0-9]*$')",message="it takes a kind as the pods name it in their ownerReferences, such as StatefulSet"
	Kind string `json:"kind,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="it takes the name of the workload, without its kind before it: lower case letters, digits, - and ."
	Name string `json:"name"`
}

// ExistingBackup is a backup in the storage.
type ExistingBackup struct {
	// Name is its name in the storage.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9._:+-]*$') && !self.contains('..')",message="it takes the name of a backup in the storage: a letter or digit, then letters, digits and . _ : + - (no slash, no ..)"
	Name string `json:"name"`
	// Prefix is [storage] prefix of the medusa.ini that it was made with; empty where it
	// has none. Where medusa.ini says nothing the agent has given it one:
	// namespace-cluster.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.contains('/') && !self.contains('..')",message="it takes [storage] prefix of the medusa.ini that the backup was made with, or nothing where it has none: no slash, no .."
	Prefix string `json:"prefix"`
}
