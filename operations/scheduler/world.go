package scheduler

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule"
)

// world is what is there of a schedule and its cluster. The objects are the cache's and
// are not to be changed.
type world struct {
	// own are the Backups of the schedule by their label, the newest first.
	own []*api.Backup
	// others are those of the same cluster that are not: of other schedules, of people,
	// of other namespaces with the same prefix.
	others []*api.Backup
	// restores are those that are not over, of the namespaces of these Backups.
	restores []*api.Restore
	// holder is what is at work on the cluster's storage; nil for nothing.
	holder *holder
	// marked are Backups whose deletion was asked for, though the cache may not show it.
	marked map[types.UID]bool
	// refusal is why the API server did not take the pending Backup.
	refusal string
}

type holder struct {
	kind string
	who  types.NamespacedName
}

// cluster is where the Backups of a schedule are: below the prefix of the newest one
// that has a name in the storage. One that the schedule has made itself says it before
// one that another of its name has, and that before one that was found: those may be of
// another cluster.
func (w *world) cluster(s *api.BackupSchedule) (prefix string, known bool) {
	if b := w.latest(s); b != nil {
		return b.Status.Prefix, true
	}
	for _, made := range []bool{true, false} {
		for _, b := range w.own {
			if b.Status.Name != "" && b.Found() != made {
				return b.Status.Prefix, true
			}
		}
	}
	return "", false
}

// latest is the newest Backup that this very schedule has made, and not one of its name
// that was deleted; nil where it has made none yet.
func (w *world) latest(s *api.BackupSchedule) *api.Backup {
	for _, b := range w.own {
		if b.Status.Name != "" && !b.Found() && !b.CreationTimestamp.Before(&s.CreationTimestamp) {
			return b
		}
	}
	return nil
}

// newestFirst sorts Backups by when they were begun.
func newestFirst(all []*api.Backup) {
	slices.SortStableFunc(all, func(a, b *api.Backup) int {
		return cmp.Or(began(b).Compare(began(a)), cmp.Compare(b.Name, a.Name), cmp.Compare(b.Namespace, a.Namespace))
	})
}

// began is when a backup was begun; zero where nothing tells.
func began(b *api.Backup) time.Time {
	switch {
	case b.Status.Started != nil:
		return b.Status.Started.Time
	case !b.Found():
		return b.CreationTimestamp.Time
	}
	if parts, ok := api.ParseStorageName(storageName(b)); ok {
		return parts.Made
	}
	return time.Time{}
}

// storageName is a Backup's name in the storage, also of one that has none yet.
func storageName(b *api.Backup) string {
	switch {
	case b.Status.Name != "":
		return b.Status.Name
	case b.Found():
		return b.Spec.Existing.Name
	}
	return b.StorageName()
}

func prefixOf(b *api.Backup) string {
	if b.Status.Name == "" && b.Found() {
		return b.Spec.Existing.Prefix
	}
	return b.Status.Prefix
}

// overdueBy is how long after its timeout a Backup counts as stuck: its controller ends
// it by then.
const overdueBy = 5 * time.Minute

// until is when a Backup has to be over.
func until(b *api.Backup) time.Time {
	return began(b).Add(b.Spec.TimeoutOrDefault() + overdueBy)
}

// running tells whether a Backup of ours, or of others, is being made or about to be.
// What was found and is not over is somebody else's, and may have been given up: it
// counts for as long as a backup may last.
func running(b *api.Backup, now time.Time) bool {
	if b.Status.Phase.Final() || b.Status.Phase == api.BackupDeleting || b.Spec.DryRun {
		return false
	}
	if b.Found() {
		at := began(b)
		return !at.IsZero() && now.Sub(at) < api.DefaultBackupTimeout
	}
	return true
}

// going tells whether the data of a Backup are to be deleted.
func (w *world) going(b *api.Backup) bool {
	return w.marked[b.UID] || b.Status.Phase == api.BackupDeleting || b.DeletionTimestamp != nil && !b.Keeps()
}

// find finds a Backup of the schedule by its object's name.
func (w *world) find(name string) *api.Backup {
	for _, b := range w.own {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// active are the Backups that a run waits for. What was found is waited for by the
// Backup's controller, at its pods.
func (w *world) active(now time.Time) (list []schedule.Active) {
	add := func(all []*api.Backup, foreign bool) {
		for _, b := range all {
			if running(b, now) && !b.Found() {
				list = append(list, schedule.Active{Name: b.Name, Started: began(b), Until: until(b), Foreign: foreign})
			}
		}
	}
	add(w.own, false)
	add(w.others, true)
	return list
}

// deleting tells whether data of the cluster are being deleted now.
func (w *world) deleting() bool {
	return w.holder != nil && (w.holder.kind == HolderDeletion || w.holder.kind == HolderPurge)
}
