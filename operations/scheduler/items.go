package scheduler

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule/retention"
)

// stock is what retention decides about: one item for each name in the storage.
type stock struct {
	items []retention.Item
	own   map[string]*api.Backup // the Backup of the schedule, by the name in the storage
}

// take makes the stock. Without a listing, everything is taken to be there: what would
// be deleted then is at least what would be deleted with any.
func (w *world) take(s *api.BackupSchedule, prefix string, listing *Listing, now time.Time) *stock {
	k := &stock{own: map[string]*api.Backup{}}
	at := map[string]int{}
	var there map[string]bool
	if listing != nil {
		there = names(listing)
	}
	for _, b := range w.own {
		named := b.Status.Name != "" || b.Found()
		if named && prefixOf(b) != prefix || !named && b.Status.Phase.Final() || b.Spec.DryRun {
			continue // of another cluster, or nowhere in the storage
		}
		it := w.item(b, now)
		it.Listed = listing == nil || there[it.Name]
		// One that goes without its data stays in the storage, as nobody's.
		it.Own = it.Own && (b.DeletionTimestamp == nil || !b.Keeps())
		if i, ok := at[it.Name]; ok {
			k.items[i] = merge(k.items[i], it)
			continue
		}
		at[it.Name] = len(k.items)
		k.items, k.own[it.Name] = append(k.items, it), b
	}
	for _, b := range w.others {
		it := w.item(b, now)
		it.Listed = listing == nil || there[it.Name]
		// One that was made here is found by others that share the prefix, and stays ours.
		mine := k.own[it.Name]
		it.Own = mine != nil && !mine.Found() && b.Found()
		if i, ok := at[it.Name]; ok {
			k.items[i] = merge(k.items[i], it)
			continue
		}
		// Another namespace may have the same prefix in another bucket, which says nothing
		// about this one. What runs there counts nevertheless.
		if b.Namespace != s.Namespace && !it.Listed && it.State != retention.Active && it.State != retention.Deleting {
			continue
		}
		at[it.Name] = len(k.items)
		k.items = append(k.items, it)
	}
	if listing != nil {
		for i := range listing.Backups {
			if _, ok := at[listing.Backups[i].Name]; !ok {
				k.items = append(k.items, unknown(&listing.Backups[i], now))
			}
		}
	}
	return k
}

// names are those that a listing has.
func names(l *Listing) map[string]bool {
	there := map[string]bool{}
	for i := range l.Backups {
		there[l.Backups[i].Name] = true
	}
	return there
}

// item is what a Backup is to retention.
func (w *world) item(b *api.Backup, now time.Time) retention.Item {
	it := retention.Item{Name: storageName(b), When: dated(b), Objects: b.Status.Objects, Own: true, Pinned: b.Spec.Pinned,
		Verified: meta.IsStatusConditionTrue(b.Status.Conditions, api.ConditionVerified), UsedBy: w.usedBy(b)}
	switch phase := b.Status.Phase; {
	case w.going(b):
		it.State = retention.Deleting
	case running(b, now):
		it.State = retention.Active
	case phase == api.BackupComplete:
		it.State = retention.Complete
	case phase == api.BackupMissing:
		it.State = retention.Missing
	default:
		it.State = retention.Incomplete
	}
	return it
}

// dated is when a backup was begun, or zero where that cannot be right: one that was made
// begins before its timeout has passed since the API server, which has a clock of its
// own, took the object.
func dated(b *api.Backup) time.Time {
	at := began(b)
	if created := b.CreationTimestamp.Time; !b.Found() && !created.IsZero() && future(at, created.Add(b.Spec.TimeoutOrDefault())) {
		return time.Time{}
	}
	return at
}

// merge makes one item of two objects that say they are the same backup. It is nobody's
// to delete whom it does not belong to alone.
func merge(a, b retention.Item) retention.Item {
	order := []retention.State{retention.Active, retention.Deleting, retention.Complete, retention.Incomplete, retention.Missing}
	if slices.Index(order, b.State) < slices.Index(order, a.State) {
		a.State = b.State
	}
	a.Own = a.Own && b.Own
	a.Pinned = a.Pinned || b.Pinned
	a.Verified = a.Verified || b.Verified
	a.UsedBy = cmp.Or(a.UsedBy, b.UsedBy)
	a.Objects = max(a.Objects, b.Objects)
	return a
}

// unknown is a backup of the storage that has no object here. One that has not ended
// may be going on, for as long as a backup may last.
func unknown(b *node.Summary, now time.Time) retention.Item {
	it := retention.Item{Name: b.Name, When: b.Started, State: retention.Incomplete, Listed: true}
	switch {
	case b.Complete:
		it.State, it.Objects = retention.Complete, 1 // nobody has counted them
	case !b.Started.IsZero() && now.Sub(b.Started) < api.DefaultBackupTimeout:
		it.State = retention.Active
	}
	return it
}

// usedBy tells what reads a backup.
func (w *world) usedBy(b *api.Backup) string {
	if v := b.Status.Verified; v != nil && v.Result == api.VerificationRunning {
		return "its restore on trial"
	}
	name := storageName(b)
	for _, r := range w.restores {
		if using(r) && (r.Status.Backup == name || r.Status.Backup == "" && (r.Spec.Backup == name || r.Namespace == b.Namespace && r.Spec.Backup == b.Name)) {
			return "Restore " + r.Name
		}
	}
	return ""
}

// using tells whether a Restore may read a backup: one that has ended, but holds pods
// still, will.
func using(r *api.Restore) bool {
	return !r.Spec.DryRun && (!r.Status.Phase.Final() || len(r.Status.Pending) > 0)
}

// ended is when the last backup of the cluster ended that was made here, and what a
// listing has to be younger than. What ends is stored a moment before, and written down
// in seconds.
func (w *world) ended(prefix string) (last time.Time) {
	for _, list := range [][]*api.Backup{w.own, w.others} {
		for _, b := range list {
			if at := b.Status.Finished; at != nil && !b.Found() && prefixOf(b) == prefix && at.After(last) {
				last = at.Time
			}
		}
	}
	if !last.IsZero() {
		last = last.Add(time.Second)
	}
	return last
}

// restoring is a Restore of the cluster that has been accepted and is not over: what
// it reads is settled a moment later, and nothing is deleted next to it.
func (w *world) restoring(namespace, prefix string) *api.Restore {
	pods := map[string]bool{}
	for _, b := range w.own {
		if prefixOf(b) == prefix && !b.Found() {
			for i := range b.Status.Pods {
				pods[b.Status.Pods[i].Name] = true
			}
			break // the newest
		}
	}
	for _, r := range w.restores {
		if !using(r) || r.Status.Started == nil {
			continue
		}
		if at := r.Status.Prefix; at != "" && (at == prefix || at == "." && prefix == "") { // "." is none
			return r
		}
		if r.Namespace != namespace {
			continue
		}
		for i := range r.Status.Pods {
			if pods[r.Status.Pods[i].Name] {
				return r
			}
		}
	}
	return nil
}
