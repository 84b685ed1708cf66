package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BackupPhase is how far a Backup is, in a word.
type BackupPhase string

// The phases. Complete, Partial, Failed, Cancelled and Planned are final: nothing
// further happens to the data but their deletion, or that others take them away.
const (
	BackupWaiting   BackupPhase = "Waiting"   // for a restore, another backup, a purge, a sidecar; or suspended
	BackupRunning   BackupPhase = "Running"   // pods upload, or what they have uploaded is looked at
	BackupComplete  BackupPhase = "Complete"  // every pod is, and has objects in the storage
	BackupPartial   BackupPhase = "Partial"   // some pods are complete, and some are not; or keys of Anna are missing
	BackupFailed    BackupPhase = "Failed"    // no pod is complete
	BackupCancelled BackupPhase = "Cancelled" // before every pod was complete
	BackupPlanned   BackupPhase = "Planned"   // of a dry run
	BackupDeleting  BackupPhase = "Deleting"  // the data are being deleted, and then the object
	// BackupMissing says that the data have gone from the storage, or some of them, with
	// nobody having asked for it here.
	BackupMissing BackupPhase = "Missing"
)

// BackupPhases lists them all: a metric is labelled by them.
var BackupPhases = []BackupPhase{
	BackupWaiting, BackupRunning, BackupComplete, BackupPartial, BackupFailed, BackupCancelled,
	BackupPlanned, BackupDeleting, BackupMissing,
}

// Final tells whether the backup is over, in whatever way.
func (p BackupPhase) Final() bool {
	return p != "" && !slices.Contains([]BackupPhase{BackupWaiting, BackupRunning, BackupDeleting}, p)
}

// The conditions of a Backup beside ConditionAccepted, ConditionCompleted and
// ConditionFailed, which is True for one that is Partial, too. Accepted: the pods are
// settled, and the spec holds from now on.
const (
	ConditionStored   = "Stored"   // the storage has what the status says; False once it was looked for and is not there
	ConditionVerified = "Verified" // it was restored on trial, and held what it should
	ConditionDeleted  = "Deleted"  // False while its data cannot be deleted, with the reason
)

// BackupOrigin says how the object has come about.
type BackupOrigin string

// Made is a Backup whose pods were backed up for it, Found one that was in the storage.
const (
	BackupMade  BackupOrigin = "Made"
	BackupFound BackupOrigin = "Found"
)

// PodBackupPhase is how far the backup of one pod is.
type PodBackupPhase string

// The phases of a pod. The last three are final, but that a failed one may be tried
// again.
const (
	PodBackupWaiting  PodBackupPhase = "Waiting"  // for its turn, its sidecar, or the next try
	PodBackupRunning  PodBackupPhase = "Running"  // its sidecar was asked, and has not said that it is done
	PodBackupChecking PodBackupPhase = "Checking" // its sidecar says that it is done; the storage is asked for the objects
	PodBackupComplete PodBackupPhase = "Complete" // and has them
	PodBackupFailed   PodBackupPhase = "Failed"
	PodBackupGone     PodBackupPhase = "Gone" // the pod vanished before it was complete, and has not come back
)

// Final tells whether nothing more is awaited of the pod, unless it is tried again.
func (p PodBackupPhase) Final() bool {
	return p == PodBackupComplete || p == PodBackupFailed || p == PodBackupGone
}

// BackupStatus is how far a Backup is, and what the storage has of it.
//
// What says Complete is trusted by retention, which deletes others for its sake.
// Hence the API server, too, sees to it that it is.
//
// +kubebuilder:validation:XValidation:rule="!has(self.phase) || self.phase != 'Complete' || has(self.name) && has(self.finished) && has(self.pods) && self.pods.size() > 0",message="a Backup is Complete only with its name in the storage, the time it finished and its pods",fieldPath=".phase"
// +kubebuilder:validation:XValidation:rule="!has(self.phase) || self.phase != 'Complete' || !has(self.pods) || self.pods.all(p, p.phase == 'Complete')",message="a Backup is Complete only when every pod of it is: write Partial or Failed",fieldPath=".phase"
// +kubebuilder:validation:XValidation:rule="!has(self.pods) || self.pods.all(p, p.phase != 'Complete' || has(p.objects) && p.objects > 0)",message="a pod is Complete only when the storage has objects of it: a backup of nothing is a failure",fieldPath=".pods"
// +kubebuilder:validation:XValidation:rule="!has(self.pods) || self.pods.size() == 0 || has(self.name) || has(self.phase) && self.phase == 'Planned'",message="pods are backed up under a name: write status.name before status.pods, or with it",fieldPath=".pods"
type BackupStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Name is the backup's name in the storage. It is settled before any pod is asked.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Prefix is the prefix of the storage that the backup is below.
	// +kubebuilder:validation:MaxLength=253
	Prefix string `json:"prefix,omitempty"`
	// Origin is Made, or Found for a backup that was in the storage.
	// +kubebuilder:validation:MaxLength=32
	Origin BackupOrigin `json:"origin,omitempty"`
	// +kubebuilder:validation:MaxLength=32
	Phase BackupPhase `json:"phase,omitempty"`
	// Message says what happens, or what is waited for, or what went wrong and what to
	// do, in a sentence.
	Message string `json:"message,omitempty"`
	// Type is differential or full, as the storage has it.
	// +kubebuilder:validation:MaxLength=32
	Type BackupType `json:"type,omitempty"`

	// Started is when it was accepted, or when the first node began for one that was
	// found; Finished when it ended, or when the last node had finished.
	Started  *metav1.Time `json:"started,omitempty"`
	Finished *metav1.Time `json:"finished,omitempty"`

	Progress BackupProgress `json:"progress,omitempty,omitzero"`
	// Bytes and Objects are those of all pods: of the whole backup, also of what a
	// differential one did not have to upload.
	Bytes   int64 `json:"bytes,omitempty"`
	Objects int64 `json:"objects,omitempty"`

	// Database is the version of the database, where the storage tells; the lowest
	// where nodes differ.
	Database string `json:"database,omitempty"`
	// Pods are those that belong to the backup, by name; for one that was found, its
	// nodes. The list is written as a whole, as the API server would otherwise keep a
	// record for each field of each pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Pods []PodBackup `json:"pods,omitempty"`

	// Listed is when the storage was last seen to have all this. It is written at most
	// once a day, and when it changes what the status says.
	Listed *metav1.Time `json:"listed,omitempty"`
	// Verified is the newest restore on trial.
	// +optional
	Verified *Verification `json:"verified,omitempty"`

	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BackupProgress is for the columns of kubectl get.
type BackupProgress struct {
	Pods string `json:"pods,omitempty"` // complete of all, as 2/3
	Size string `json:"size,omitempty"` // Bytes, as 1.4GiB
}

// PodBackup is the part of a pod, and of its node's data, in a backup.
type PodBackup struct {
	// Name is the pod's; for a backup that was found, the node's.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Node is the node's name in the storage, where it is not Name.
	Node string `json:"node,omitempty"`
	// UID is the pod's at its latest try: another one is another sidecar, which knows
	// nothing of the backup.
	UID types.UID `json:"uid,omitempty"`
	// +kubebuilder:validation:MaxLength=32
	Phase PodBackupPhase `json:"phase"`
	// Tries is how often its sidecar was asked. It is written before that is done.
	Tries    int32        `json:"tries,omitempty"`
	Started  *metav1.Time `json:"started,omitempty"`
	Finished *metav1.Time `json:"finished,omitempty"`
	// What the storage has of the node, once it is complete.
	Objects int64 `json:"objects,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
	Tables  int32 `json:"tables,omitempty"`
	Keys    int64 `json:"keys,omitempty"` // of Anna
	// Missing is how many keys of Anna the part lacks that the node listed: the backup is
	// Partial then. The message names some of them.
	Missing int64 `json:"missing,omitempty"`
	// The node's place in the ring, by which a restore is planned. Its tokens are in the
	// storage: of a thousand nodes they are more than an object may hold.
	Datacenter string `json:"datacenter,omitempty"`
	Rack       string `json:"rack,omitempty"`
	Tokens     int32  `json:"tokens,omitempty"` // how many
	Message    string `json:"message,omitempty"`
}

// VerificationResult is what came of a restore on trial.
type VerificationResult string

// The results.
const (
	VerificationRunning VerificationResult = "Running"
	VerificationPassed  VerificationResult = "Passed"
	VerificationFailed  VerificationResult = "Failed"
	VerificationUnknown VerificationResult = "Unknown" // it could not be tried, or did not end in time
)

// Verification is a restore on trial: into a pod of its own, which joins no ring.
type Verification struct {
	// +kubebuilder:validation:MaxLength=32
	Result   VerificationResult `json:"result"`
	Started  *metav1.Time       `json:"started,omitempty"`
	Finished *metav1.Time       `json:"finished,omitempty"`
	// Nodes are those whose data were restored.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Nodes []string `json:"nodes,omitempty"`
	// What was read.
	Tables   int32 `json:"tables,omitempty"`
	SSTables int64 `json:"sstables,omitempty"`
	Rows     int64 `json:"rows,omitempty"`
	// Uncompared is how many of the nodes had nothing that rows could be compared with.
	Uncompared int32 `json:"uncompared,omitempty"`
	// Differences are tables that did not hold what they held when the backup was made;
	// the first of them, if there are many.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Differences []TableDifference `json:"differences,omitempty"`
	Message     string            `json:"message,omitempty"`
}

// TableDifference is a table that did not hold what it should.
type TableDifference struct {
	Node  string `json:"node,omitempty"`
	Table string `json:"table"` // keyspace.table
	Want  int64  `json:"want"`  // rows
	Have  int64  `json:"have"`
}

// Pod finds a pod of the Backup.
func (s *BackupStatus) Pod(name string) *PodBackup {
	for i := range s.Pods {
		if s.Pods[i].Name == name {
			return &s.Pods[i]
		}
	}
	return nil
}

// StorageNode is the node's name in the storage.
func (p *PodBackup) StorageNode() string {
	if p.Node != "" {
		return p.Node
	}
	return p.Name
}
