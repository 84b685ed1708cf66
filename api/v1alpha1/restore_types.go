package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Restore asks for the data of pods to be replaced by those of a backup, once. It
// outlives the pods, the nodes and the controller: what was asked for happens, and
// the database of a pod named in status.pending does not start before it has.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=sgr,categories=stategraft
// +kubebuilder:printcolumn:name="Backup",type=string,JSONPath=`.status.backup`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Pods",type=string,JSONPath=`.status.progress.pods`
// +kubebuilder:printcolumn:name="Data",type=string,JSONPath=`.status.progress.data`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
//
// Values are compared by what they mean: a client that knows the types writes a
// deadline of 24h as 24h0m0s, and leaves out what is zero.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'Accepted' && c.status == 'True') || (has(self.spec.backup) == has(oldSelf.spec.backup) && (!has(self.spec.backup) || self.spec.backup == oldSelf.spec.backup) && has(self.spec.undo) == has(oldSelf.spec.undo) && (!has(self.spec.undo) || self.spec.undo == oldSelf.spec.undo) && has(self.spec.source) == has(oldSelf.spec.source) && (!has(self.spec.source) || self.spec.source == oldSelf.spec.source))",message="spec: of what was accepted only suspend and cancel can be changed: cancel this Restore (kubectl stategraft restore cancel) and make another under another name",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'Accepted' && c.status == 'True') || (has(self.spec.mode) == has(oldSelf.spec.mode) && (!has(self.spec.mode) || self.spec.mode == oldSelf.spec.mode) && has(self.spec.whenNoBackup) == has(oldSelf.spec.whenNoBackup) && (!has(self.spec.whenNoBackup) || self.spec.whenNoBackup == oldSelf.spec.whenNoBackup) && has(self.spec.keepPrevious) == has(oldSelf.spec.keepPrevious) && (!has(self.spec.keepPrevious) || self.spec.keepPrevious == oldSelf.spec.keepPrevious) && (has(self.spec.parallel) ? self.spec.parallel : 0) == (has(oldSelf.spec.parallel) ? oldSelf.spec.parallel : 0) && (has(self.spec.dryRun) ? self.spec.dryRun : false) == (has(oldSelf.spec.dryRun) ? oldSelf.spec.dryRun : false))",message="spec: of what was accepted only suspend and cancel can be changed: cancel this Restore (kubectl stategraft restore cancel) and make another under another name",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'Accepted' && c.status == 'True') || (has(self.spec.deadline) == has(oldSelf.spec.deadline) && (!has(self.spec.deadline) || duration(self.spec.deadline) == duration(oldSelf.spec.deadline)))",message="spec: of what was accepted only suspend and cancel can be changed: cancel this Restore (kubectl stategraft restore cancel) and make another under another name",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'Accepted' && c.status == 'True') || ((has(self.spec.pods) && has(self.spec.pods.names)) == (has(oldSelf.spec.pods) && has(oldSelf.spec.pods.names)) && (!has(self.spec.pods) || !has(self.spec.pods.names) || self.spec.pods.names == oldSelf.spec.pods.names))",message="spec: of what was accepted only suspend and cancel can be changed: cancel this Restore (kubectl stategraft restore cancel) and make another under another name",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'Accepted' && c.status == 'True') || ((has(self.spec.pods) && has(self.spec.pods.selector)) == (has(oldSelf.spec.pods) && has(oldSelf.spec.pods.selector)) && (!has(self.spec.pods) || !has(self.spec.pods.selector) || (has(self.spec.pods.selector.matchLabels) && self.spec.pods.selector.matchLabels.size() > 0 ? has(oldSelf.spec.pods.selector.matchLabels) && self.spec.pods.selector.matchLabels == oldSelf.spec.pods.selector.matchLabels : !has(oldSelf.spec.pods.selector.matchLabels) || oldSelf.spec.pods.selector.matchLabels.size() == 0) && (has(self.spec.pods.selector.matchExpressions) && self.spec.pods.selector.matchExpressions.size() > 0 ? has(oldSelf.spec.pods.selector.matchExpressions) && self.spec.pods.selector.matchExpressions == oldSelf.spec.pods.selector.matchExpressions : !has(oldSelf.spec.pods.selector.matchExpressions) || oldSelf.spec.pods.selector.matchExpressions.size() == 0)))",message="spec: of what was accepted only suspend and cancel can be changed: cancel this Restore (kubectl stategraft restore cancel) and make another under another name",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'Accepted' && c.status == 'True') || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Accepted' && c.status == 'True') && has(self.status.id) == has(oldSelf.status.id) && (!has(self.status.id) || self.status.id == oldSelf.status.id))",message="status: once Accepted is True it stays so, with the same id: delete the Restore to forget it",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.spec.undo) || self.spec.undo != self.metadata.name",message="a Restore cannot undo itself: name the earlier Restore, and give this one another name",fieldPath=".spec.undo"
type Restore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RestoreSpec   `json:"spec"`
	Status RestoreStatus `json:"status,omitempty"`
}

// RestoreList is a list of Restores.
//
// +kubebuilder:object:root=true
type RestoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Restore `json:"items"`
}

// BackupLatest stands for the newest complete backup in RestoreSpec.Backup and in
// the annotation on a live pod.
const BackupLatest = "latest"

// RestoreMode says whose backup is restored.
//
// +kubebuilder:validation:Enum=InPlace;Remote;Merge
type RestoreMode string

// The modes. In place, a node gets its own data back, with its tokens and its host
// id. Remote, it gets the data and the tokens of a node of another cluster or
// namespace, and stays itself otherwise. Merge is for Anna: no pod is stopped, and the
// keys of the backup are written into the cluster that runs, where a later value stays.
const (
	InPlace RestoreMode = "InPlace"
	Remote  RestoreMode = "Remote"
	Merge   RestoreMode = "Merge"
)

// WhenNoBackup says what becomes of a pod of which the backup has nothing.
//
// +kubebuilder:validation:Enum=Fail;Empty
type WhenNoBackup string

// Fail refuses the whole Restore; Empty lets the pod start without data, to join
// as a new node.
const (
	NoBackupFail  WhenNoBackup = "Fail"
	NoBackupEmpty WhenNoBackup = "Empty"
)

// KeepPrevious says whether the data that are replaced stay on the volume for a
// while, to go back to.
//
// +kubebuilder:validation:Enum=Always;IfRoom;Never
type KeepPrevious string

// Always refuses a restore that could not be undone.
const (
	KeepAlways KeepPrevious = "Always"
	KeepIfRoom KeepPrevious = "IfRoom"
	KeepNever  KeepPrevious = "Never"
)

// RestoreSpec is what is asked for. Once it is accepted only suspend and cancel can
// be changed.
//
// +kubebuilder:validation:XValidation:rule="has(self.backup) != has(self.undo)",message="give either backup (a name, latest, or a time such as 2026-01-31T06:00:00Z) or undo (the name of an earlier Restore), and not both"
// +kubebuilder:validation:XValidation:rule="has(self.undo) || has(self.pods) && (has(self.pods.names) || has(self.pods.selector))",message="say which pods: in pods.names by name, or in pods.selector by their labels",fieldPath=".pods"
// +kubebuilder:validation:XValidation:rule="!has(self.undo) || !has(self.mode) || self.mode == 'InPlace'",message="undo goes back to what was on the same volumes: leave mode at InPlace",fieldPath=".mode"
// +kubebuilder:validation:XValidation:rule="!has(self.undo) || !has(self.source)",message="undo takes nothing from a backup: leave source out",fieldPath=".source"
// +kubebuilder:validation:XValidation:rule="!has(self.undo) || !has(self.whenNoBackup) || self.whenNoBackup != 'Empty'",message="undo takes nothing from a backup: leave whenNoBackup out",fieldPath=".whenNoBackup"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Merge' || !has(self.whenNoBackup) || self.whenNoBackup != 'Empty'",message="mode Merge empties no node: leave whenNoBackup out",fieldPath=".whenNoBackup"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Remote' || has(self.source)",message="mode Remote restores what others backed up: say whose in source.cluster (namespace/cluster) or source.prefix",fieldPath=".source"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.cancel) || !oldSelf.cancel || has(self.cancel) && self.cancel",message="a Restore that was cancelled stays so: make another under another name",fieldPath=".cancel",reason=FieldValueForbidden
type RestoreSpec struct {
	// Backup is the name of a backup, or "latest", or a time as in RFC 3339 (then it
	// is the newest complete backup not after it).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9._:+-]*$') && !self.contains('..')",message="it takes the name of a backup, latest, or a time such as 2026-01-31T06:00:00Z: a letter or digit, then letters, digits and . _ : + - (no slash, no ..); kubectl stategraft restore --dry-run names the backups that there are"
	Backup string `json:"backup,omitempty"`

	// Undo is the name of an earlier Restore whose pods are to go back to the data
	// that they had before it. Instead of backup.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="it takes the name of an earlier Restore of this namespace: lower case letters, digits, - and .; kubectl get restores lists them"
	Undo string `json:"undo,omitempty"`

	// Pods are those to restore. With undo it may be left out: those of the earlier
	// Restore.
	// +optional
	Pods RestorePods `json:"pods,omitempty,omitzero"`

	// Mode is InPlace, Remote or Merge.
	// +optional
	// +kubebuilder:default=InPlace
	Mode RestoreMode `json:"mode,omitempty"`

	// Source says where the backup is from, where that is not the pods themselves.
	// +optional
	Source *RestoreSource `json:"source,omitempty"`

	// WhenNoBackup says what becomes of a pod of which the backup has nothing.
	// +optional
	// +kubebuilder:default=Fail
	WhenNoBackup WhenNoBackup `json:"whenNoBackup,omitempty"`

	// KeepPrevious says whether the replaced data stay on the volume for a while, so
	// that the restore can be undone.
	// +optional
	// +kubebuilder:default=IfRoom
	KeepPrevious KeepPrevious `json:"keepPrevious,omitempty"`

	// Parallel is how many pods are restored at a time; 0 for all.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Parallel int32 `json:"parallel,omitempty"`

	// Deadline is how long all may take from its acceptance, such as 6h. What is not
	// restored then stays stopped until the Restore is cancelled or deleted.
	// +optional
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(h|m|s|ms))+$') && duration(self) > duration('0s')",message="it takes a time longer than nothing in h, m and s, such as 6h or 1h30m; leave it out for 24h"
	Deadline *metav1.Duration `json:"deadline,omitempty"`

	// DryRun has the plan written to the status, and nothing done.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// Suspend begins nothing further: what runs is let finish.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Cancel ends the Restore for good, and lets the databases start with what is on
	// their volumes.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
}

// RestorePods names pods or selects them by their labels.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.names) && has(self.selector))",message="give either names or selector: take one of them out"
type RestorePods struct {
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(n, n.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",message="they are names of pods of this namespace, without pod/ before them: lower case letters, digits, - and ."
	Names []string `json:"names,omitempty"`
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && self.matchLabels.size() > 0 || has(self.matchExpressions) && self.matchExpressions.size() > 0",message="an empty selector would be every pod of the namespace: give it matchLabels or matchExpressions"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && !has(e.values))",message="the operator of an expression is In or NotIn, with values, or Exists or DoesNotExist, without"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// RestoreSource is where a backup is from.
//
// +kubebuilder:validation:XValidation:rule="has(self.prefix) || has(self.cluster) || has(self.nodes)",message="an empty source says nothing: give it prefix, cluster or nodes, or leave it out"
// +kubebuilder:validation:XValidation:rule="!(has(self.prefix) && has(self.cluster))",message="cluster stands for a prefix: give either cluster or prefix, and not both"
type RestoreSource struct {
	// Prefix is [storage] prefix of the medusa.ini that the backup was made with; left
	// out for the pods' own.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._:+-]*$') && !self.contains('..')",message="it takes [storage] prefix of the source's medusa.ini: letters, digits and . _ : + - (no slash, no ..), or nothing where it has none"
	Prefix *string `json:"prefix,omitempty"`
	// Cluster is the namespace of the source and its cluster's name, as
	// prod/Test Cluster, where its medusa.ini has no prefix of its own: the agent then
	// makes one of them. The namespace alone where its pods tell no cluster's name.
	// Instead of prefix.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(/.+)?$')",message="it takes the namespace of the source, a slash and its cluster's name, such as prod/Test Cluster"
	Cluster string `json:"cluster,omitempty"`
	// Nodes names, for each pod, the node of the backup that it gets. Left out it is
	// the pod's own name in place, and computed from the racks in mode Remote. Of Anna it
	// may be several, with commas between them, or "-" for none; left out they are dealt
	// out over the pods.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=1000
	// +kubebuilder:validation:XValidation:rule="self.all(pod, size(pod) > 0 && size(pod) <= 253 && size(self[pod]) > 0 && size(self[pod]) <= 253)",message="it takes the name of a node of the backup for each pod, such as db-0: cassandra-0"
	Nodes map[string]string `json:"nodes,omitempty"`
}
