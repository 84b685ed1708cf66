package v1alpha1

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RestorePhase is how far a Restore is, in a word.
type RestorePhase string

// The phases. The last four are final.
const (
	RestoreWaiting   RestorePhase = "Waiting"   // for another restore or backup, a budget, a sidecar; or suspended
	RestoreChecking  RestorePhase = "Checking"  // nothing is touched yet
	RestoreStopping  RestorePhase = "Stopping"  // pods are being deleted
	RestoreRestoring RestorePhase = "Restoring" // pods come back and restore
	RestoreCompleted RestorePhase = "Completed"
	RestoreFailed    RestorePhase = "Failed"
	RestoreCancelled RestorePhase = "Cancelled"
	RestorePlanned   RestorePhase = "Planned" // of a dry run
)

// Final tells whether nothing further happens.
func (p RestorePhase) Final() bool {
	switch p {
	case RestoreCompleted, RestoreFailed, RestoreCancelled, RestorePlanned:
		return true
	}
	return false
}

// The conditions of a Restore.
const (
	ConditionAccepted   = "Accepted"   // the pods are settled, the spec holds from now on
	ConditionPrechecked = "Prechecked" // nothing speaks against it
	ConditionStopping   = "Stopping"
	ConditionRestoring  = "Restoring"
	ConditionCompleted  = "Completed"
	ConditionFailed     = "Failed"
)

// PodPhase is how far a Restore is with one pod.
type PodPhase string

// The phases of a pod.
const (
	PodPlanned   PodPhase = "Planned"   // not touched yet
	PodStopping  PodPhase = "Stopping"  // deleted, or about to be
	PodWaiting   PodPhase = "Waiting"   // has come back, and waits for the others or its turn
	PodRestoring PodPhase = "Restoring" // its restore container runs, or tries again
	PodJoining   PodPhase = "Joining"   // restored in mode Remote, not Ready yet
	PodReplaying PodPhase = "Replaying" // of Anna: its part of the backup is there, and its keys are written again
	PodReplayed  PodPhase = "Replayed"  // of Anna: they are, and those of others not all yet
	PodRestored  PodPhase = "Restored"
	PodCancelled PodPhase = "Cancelled" // given up; the message says in what state its volume is
)

// Over tells whether nothing more is done to the pod.
func (p PodPhase) Over() bool { return p == PodRestored || p == PodCancelled }

// PodAction is what is done to a pod's volume.
type PodAction string

// The actions, as the restore container knows them (STATEGRAFT_RESTORE_ACTION).
const (
	ActionRestore PodAction = "restore"
	ActionEmpty   PodAction = "empty"
	ActionUndo    PodAction = "undo"
)

// RestoreStatus is how far a Restore is.
//
// A pod cannot be held for a Restore without an id: nothing would let it go.
//
// +kubebuilder:validation:XValidation:rule="!has(self.pending) || self.pending.size() == 0 || has(self.id) && size(self.id) > 0",message="pods are pending for an id: write status.id before status.pending, or with it"
type RestoreStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ID is what the volumes remember of this Restore: its name and a hash of what it
	// asks for. A volume that has it is not restored again, though the object be
	// deleted and applied anew.
	ID    string       `json:"id,omitempty"`
	Phase RestorePhase `json:"phase,omitempty"`
	// Message says what happens, or what is waited for, or what went wrong and what to
	// do, in a sentence.
	Message string `json:"message,omitempty"`
	// Kind is that of the pods' database, where their data are written again once it runs:
	// anna.
	Kind string `json:"kind,omitempty"`
	// Round counts how often a node of Anna was lost, with keys that others had written to
	// it: then all of them write theirs once more.
	Round int32 `json:"round,omitempty"`
	// Backup is the name that was found for the backup asked for.
	Backup string `json:"backup,omitempty"`
	// Prefix is the prefix of the storage that the backup is below, where it is not the
	// pods' own.
	Prefix string `json:"prefix,omitempty"`
	// UndoID is the ID of the Restore that is undone.
	UndoID string `json:"undoID,omitempty"`
	// BackupFinished is when that backup was made: what was written since is lost.
	BackupFinished *metav1.Time    `json:"backupFinished,omitempty"`
	Progress       RestoreProgress `json:"progress,omitempty,omitzero"`
	Started        *metav1.Time    `json:"started,omitempty"` // accepted
	Finished       *metav1.Time    `json:"finished,omitempty"`

	// Pending are the pods that must not start before they are restored. The policy
	// restore-pending.stategraft.io and the webhook go by it.
	// +optional
	// +listType=set
	Pending []string `json:"pending,omitempty"`
	// Probe is the name of a pod that is never made: that the API server refuses it
	// shows that it knows Pending.
	Probe string `json:"probe,omitempty"`

	// +optional
	// +listType=map
	// +listMapKey=name
	Pods []PodRestore `json:"pods,omitempty"`

	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RestoreProgress is for the columns of kubectl get.
type RestoreProgress struct {
	Pods string `json:"pods,omitempty"` // restored of all, as 1/3
	Data string `json:"data,omitempty"` // bytes of all, as 45%
}

// PodRestore is how far it is with one pod.
type PodRestore struct {
	Name   string    `json:"name"`
	Phase  PodPhase  `json:"phase"`
	Action PodAction `json:"action,omitempty"`
	// Node is the node of the backup whose data the pod gets. Of Anna it may be several,
	// with commas between them, or "-" for none.
	Node string `json:"node,omitempty"`
	// Keys are those that have been written again, of KeysTotal: of Anna.
	Keys      int64 `json:"keys,omitempty"`
	KeysTotal int64 `json:"keysTotal,omitempty"`
	// Process is the start of the pod's database to which keys are written: another one
	// has lost them.
	Process    string       `json:"process,omitempty"`
	Bytes      int64        `json:"bytes,omitempty"`
	BytesTotal int64        `json:"bytesTotal,omitempty"`
	Started    *metav1.Time `json:"started,omitempty"`
	Finished   *metav1.Time `json:"finished,omitempty"`
	// Failures is how often the restore container has failed.
	Failures int32 `json:"failures,omitempty"`
	// Previous says that the data from before are kept on the volume.
	Previous bool `json:"previous,omitempty"`
	// Tokens are those that the node joins with, in mode Remote.
	// +optional
	// +listType=atomic
	Tokens  []string `json:"tokens,omitempty"`
	Message string   `json:"message,omitempty"`
}

// Pod finds a pod of the Restore.
func (s *RestoreStatus) Pod(name string) *PodRestore {
	for i := range s.Pods {
		if s.Pods[i].Name == name {
			return &s.Pods[i]
		}
	}
	return nil
}

// MayHavePrevious tells whether a pod's volume may have data from before: it says so
// when it is done, and of a restore that was given up in the middle only the volume
// knows.
func (p *PodRestore) MayHavePrevious() bool {
	return p.Previous || p.Started != nil && p.Phase != PodRestored
}

// NoSource stands in PodRestore.Node, and so in the restore container's variable of the
// source, for a pod of Anna that gets no part of the backup.
const NoSource = "-"

// KindAnna is RestoreStatus.Kind of Anna.
const KindAnna = "anna"

// ReplayID is the ID of the replay that is waited for: that of the request, until a node
// is lost on the way.
func (s *RestoreStatus) ReplayID() string {
	if s.Round == 0 {
		return s.ID
	}
	return s.ID + "+" + strconv.Itoa(int(s.Round))
}

// Sources are the nodes of the backup whose parts the pod gets, of Anna.
func (p *PodRestore) Sources() []string {
	if p.Node == "" || p.Node == NoSource {
		return []string{}
	}
	return strings.Split(p.Node, ",")
}
