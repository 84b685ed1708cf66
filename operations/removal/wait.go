package removal

import "fmt"

// Reason is why data cannot be deleted for now. There are no others, so that it can be
// the label of a metric and the reason of a condition.
type Reason string

// The reasons.
const (
	NoSidecar          Reason = "NoSidecar"          // no pod of the cluster has one
	SidecarUnreachable Reason = "SidecarUnreachable" // none answers
	OtherStorage       Reason = "OtherStorage"       // the pods look below another prefix
	NodesGone          Reason = "NodesGone"          // no pod that runs has part in it
	StorageUnreachable Reason = "StorageUnreachable" // it cannot be listed
	ListEmpty          Reason = "ListEmpty"          // it shows nothing of what has to be there
	Unsafe             Reason = "Unsafe"             // Medusa would delete more
	BackupRuns         Reason = "BackupRuns"         // purge racing a backup: medusa#363
	NotDeleted         Reason = "NotDeleted"         // Medusa did not, or not all of it
)

// Reasons lists them all.
var Reasons = []Reason{
	NoSidecar, SidecarUnreachable, OtherStorage, NodesGone, StorageUnreachable, ListEmpty, Unsafe, BackupRuns, NotDeleted,
}

// Wait says what a deletion waits for, and what to do where somebody has to.
type Wait struct {
	Reason  Reason
	Message string
	Err     error // what it came of, if anything
	// Going says that a sidecar may be deleting still, though nobody waits for its answer
	// any more: no backup of the cluster may begin meanwhile.
	Going bool
}

func (w *Wait) Error() string { return w.Message }

func (w *Wait) Unwrap() error { return w.Err }

// Kept says that the data are not to be deleted, whatever the Backup's deletionPolicy is.
// Nothing was.
type Kept struct{ Message string }

func (k *Kept) Error() string { return k.Message }

// ErrUnsafe says that Medusa would delete other backups, too.
var ErrUnsafe = fmt.Errorf("the deletion would take other backups along")

func waitFor(reason Reason, err error, format string, args ...any) error {
	return &Wait{Reason: reason, Message: fmt.Sprintf(format, args...), Err: err}
}
