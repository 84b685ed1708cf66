package scheduler

import (
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule/retention"
)

// trimLimit is how many objects are removed at a time.
const trimLimit = 10

// spare are the Backups beyond failedHistoryLimit of which the storage has nothing: only
// the object goes, and no data with it. Of the others the data go by retention.incomplete,
// and the object with them. Without a listing, it is those that might be.
func (w *world) spare(s *api.BackupSchedule, k *stock, listing *Listing) (list []*api.Backup) {
	var there map[string]bool
	known, seen := false, false // complete ones, and of these in the storage
	if listing != nil {
		there = names(listing)
		for _, it := range k.items {
			known = known || it.State == retention.Complete
			seen = seen || it.State == retention.Complete && it.Listed
		}
		if known && !seen || listing.Failed != "" {
			return nil
		}
	}
	n := 0
	for _, b := range w.own {
		switch b.Status.Phase {
		case api.BackupPartial, api.BackupFailed, api.BackupCancelled, api.BackupMissing:
		default:
			continue
		}
		if n++; n <= s.Spec.FailedHistoryOrDefault() || b.DeletionTimestamp != nil || w.marked[b.UID] || b.Spec.Pinned || w.usedBy(b) != "" {
			continue
		}
		if listing == nil {
			list = append(list, b)
			continue
		}
		// What ended after the listing may not be in it yet. Where all are missing, the
		// bucket may be another one.
		late := b.Status.Finished == nil || !listing.Listed.After(b.Status.Finished.Time)
		if there[storageName(b)] || b.Status.Phase == api.BackupMissing && !seen || late && b.Status.Phase != api.BackupMissing {
			continue
		}
		list = append(list, b)
	}
	return list[:min(len(list), trimLimit)]
}
