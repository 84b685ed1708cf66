package backup

import (
	"fmt"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/claims"
	"github.com/stategraft/stategraft/operations/removal"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of the condition Deleted beside those of operations/removal.
const (
	reasonBusy     = "Busy"   // another has the turn, or reads the backup
	reasonQueued   = "Queued" // many are deleted at a time
	reasonFailed   = "Failed" // something went wrong that nobody has thought of
	reasonDeleting = claims.ReasonDeleting
)

// deletionReasons lists them all: a metric is labelled by them.
func deletionReasons() []string {
	reasons := []string{reasonDeleting, reasonBusy, reasonQueued, reasonFailed}
	for _, r := range removal.Reasons {
		reasons = append(reasons, string(r))
	}
	return reasons
}

// release tells why a Backup that is being deleted can go as it is, its data with it
// or not; empty where its data are to be deleted first. Warn says that somebody may
// have wanted them to go.
func release(b *api.Backup, terminating bool) (why string, warn bool) {
	_, name := removal.Stored(b)
	switch {
	case name == "" || !b.Found() && !begun(b):
		return "nothing of it is in the storage", false
	case b.Spec.Pinned:
		return fmt.Sprintf("its data stay in the storage as %s, as it is pinned", name), false
	case b.Keeps():
		return fmt.Sprintf("its data stay in the storage as %s, by its deletionPolicy", name), false
	case terminating:
		return goingText(name), true
	}
	return "", false
}

func goingText(name string) string {
	return fmt.Sprintf("its data stay in the storage as %s, as its namespace is being deleted, or the CustomResourceDefinition of all Backups is: nobody has asked for this one to go. A sync (kubectl stategraft sync) brings it back where its data are wanted gone", name)
}

// begun tells whether any sidecar may have been asked for the backup.
func begun(b *api.Backup) bool {
	for i := range b.Status.Pods {
		if at := &b.Status.Pods[i]; at.Tries > 0 || at.Objects > 0 {
			return true
		}
	}
	return false
}

// deleting is the step that says what the deletion of the data waits for, or that it
// goes on.
func deleting(b *api.Backup, reason, message string, now time.Time) step {
	s := start(b)
	if b.Found() && s.status.Name == "" { // so that it can be told whose turn it is
		s.status.Name, s.status.Prefix = b.Spec.Existing.Name, b.Spec.Existing.Prefix
	}
	if s.status.Finished == nil {
		s.status.Finished = stamp(now)
	}
	s.status.Phase, s.status.Message = api.BackupDeleting, workload.Clip(message, messageLimit)
	s.set(api.ConditionDeleted, false, reason, message, b.Generation, now)
	return s
}
