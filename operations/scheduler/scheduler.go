// Package scheduler has the controller of BackupSchedules: it makes Backups at their
// times, and deletes the old ones by rules that cannot hurt. When, and which, is
// decided in operations/schedule and operations/schedule/retention.
//
//	spec.go                         what a BackupSchedule asks for, or why that cannot be followed
//	world.go                        what is there: Backups of the schedule and of its cluster
//	course.go, history.go, late.go  the next step of a schedule; pure
//	items.go, retain.go, held.go    what retention decides; pure
//	trim.go                         objects of backups of which nothing is stored; pure
//	template.go                     the Backup of a run
//	reconcile.go, gather.go,
//	retention.go, effects.go,
//	store.go                        reading, and doing the step
//	run.go, events.go, metrics.go   the rest
//
// The controller may end at any instant. That a run is made is written before its
// Backup is, whose name follows from the time that was meant: it is there once. What is
// deleted is decided anew each time from what is there, and asked of the API server only
// while that is still so.
package scheduler

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/operations/objects"
)

// Listing is what the storage was seen to hold below a prefix, or why it could not be
// looked at. Its fields are those of operations/catalogue.
type Listing struct {
	Namespace, Prefix string
	Backups           []node.Summary
	Listed            time.Time
	Failed            string
}

// Catalogue tells what is in the storage. A listing that is older than maxAge is made
// anew, which asks a sidecar of the cluster and may take as long as ctx allows.
type Catalogue interface {
	Listing(ctx context.Context, namespace, prefix string, maxAge time.Duration) Listing
}

// CatalogueFunc is a Catalogue of a function.
type CatalogueFunc func(ctx context.Context, namespace, prefix string, maxAge time.Duration) Listing

// Listing implements Catalogue.
func (f CatalogueFunc) Listing(ctx context.Context, namespace, prefix string, maxAge time.Duration) Listing {
	return f(ctx, namespace, prefix, maxAge)
}

// What may be at work on a cluster's storage, as operations/claims calls it. Any other
// kind holds retention as a backup does.
const (
	HolderBackup   = "Backup"
	HolderDeletion = "Deletion"
	HolderPurge    = "Purge"
	HolderRestore  = "Restore"
)

// Claims tells what is at work on the storage of a cluster now: that of a prefix, or of
// the namespace where the prefix is empty.
type Claims interface {
	Holder(namespace, prefix string) (kind string, who types.NamespacedName, held bool)
}

// ClaimsFunc is Claims of a function.
type ClaimsFunc func(namespace, prefix string) (kind string, who types.NamespacedName, held bool)

// Holder implements Claims.
func (f ClaimsFunc) Holder(namespace, prefix string) (string, types.NamespacedName, bool) {
	return f(namespace, prefix)
}

// Options say how to schedule.
type Options struct {
	Catalogue Catalogue
	Claims    Claims
	Clock     func() time.Time // nil for time.Now
}

// Add adds the controller to the Group.
func Add(g *objects.Group, o Options) error {
	if o.Catalogue == nil || o.Claims == nil {
		return errors.New("scheduling backups needs to know what the storage holds, and what is at work on it")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	mgr := g.Manager
	g.Add(func(ctx context.Context, cached cache.Cache) ([]objects.Runner, error) {
		if err := index(ctx, cached); err != nil {
			return nil, err
		}
		r := newReconciler(cached, mgr.GetAPIReader(), server{mgr.GetClient()}, recorder{mgr.GetEventRecorder("stategraft-controller")}, o)
		r.log = mgr.GetLogger().WithName("scheduler")
		return runners(cached, r)
	})
	return nil
}
