package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// GateRestore is the scheduling gate of a pod that has come back to be restored. It
// is lifted when every pod of the Restore has gone down, and it is the pod's turn.
const GateRestore = Group + "/restore"

// AnnotationRestoreAnswer stands on a live pod whose annotation AnnotationRestore was
// answered, with its value and what came of it. While it is there for the same value
// the pod is not asked about again.
const AnnotationRestoreAnswer = Group + "/restore-answer"

// EnvRestoreID is the variable of the restore container with RestoreStatus.ID. The
// policy restore-pending.stategraft.io looks for it.
const EnvRestoreID = "STATEGRAFT_RESTORE_ID"

// Order is what a Restore has to do with one pod.
type Order struct {
	Restore string // its name
	// Pending says that the pod must not start before it is restored. All below but
	// Tidy is meant for it.
	Pending bool
	// Tidy says that data from before are kept on the pod's volume, to be removed once
	// the database has been ready for long enough.
	Tidy bool

	ID     string
	Action PodAction
	Backup string
	Node   string // of the backup; of Anna several, with commas, or NoSource
	Prefix string // of the storage; empty for the pod's own
	Mode   RestoreMode
	Keep   KeepPrevious
	UndoID string   // with ActionUndo: whose previous data come back
	Tokens []string // in mode Remote
}

// Order tells what the Restore has to do with a pod; ok says whether anything.
func (r *Restore) Order(pod string) (o Order, ok bool) {
	at := r.Status.Pod(pod)
	if at == nil {
		return Order{}, false
	}
	o = Order{
		Restore: r.Name, Pending: slices.Contains(r.Status.Pending, pod), Tidy: at.Previous,
		ID: r.Status.ID, Action: at.Action, Backup: r.Status.Backup, Node: at.Node, Prefix: r.Status.Prefix,
		Mode: r.Spec.Mode, Keep: r.Spec.KeepPrevious, UndoID: r.Status.UndoID, Tokens: at.Tokens,
	}
	if r.Status.Kind == KindAnna {
		// Nodes of Anna have no tokens: whose backup it is, is in the prefix.
		o.Mode = InPlace
	}
	return o, o.Pending || o.Tidy
}

// RequestID is the ID of a Restore: its name, and a hash of what it asks for, so that
// the same object applied again is the same request, and another of its name is not.
func (r *Restore) RequestID() string {
	asked := r.Spec.DeepCopy()
	asked.Deadline, asked.Parallel, asked.DryRun, asked.Suspend, asked.Cancel = nil, 0, false, false, false
	text, err := json.Marshal(asked)
	if err != nil {
		panic("encoding a restore: " + err.Error()) // a spec of strings, numbers and booleans
	}
	sum := sha256.Sum256(text)
	return r.Name + "/" + hex.EncodeToString(sum[:6])
}
