package claims

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// ReasonDeleting is the reason of the condition Deleted from before the first data are
// deleted until all are, or until it has to wait: with it a Backup has the turn.
const ReasonDeleting = "Deleting"

// implied is the claim that follows from a Backup; "" for none. One that is being
// deleted has begun nothing, or what runs of it the sidecars tell; without the finalizer
// its data are dealt with, though another's may hold the object.
func implied(b *api.Backup) Kind {
	switch {
	case b.DeletionTimestamp != nil:
		deleted := meta.FindStatusCondition(b.Status.Conditions, api.ConditionDeleted)
		if held(b) && b.Status.Phase == api.BackupDeleting && deleted != nil && deleted.Reason == ReasonDeleting {
			return Deletion
		}
	case b.Found() || b.Spec.DryRun:
	case b.Status.Name != "" && !b.Status.Phase.Final():
		return Backup
	}
	return ""
}

func held(b *api.Backup) bool { return slices.Contains(b.Finalizers, api.FinalizerBackup) }

func of(b *api.Backup) types.NamespacedName {
	return types.NamespacedName{Namespace: b.Namespace, Name: b.Name}
}

// holder is who has the turn of the cluster by its object, but for one. There ought to be
// one at the most; of several it is the one that was asked for first, so that they do not
// wait for each other.
func (o *objects) holder(but types.UID) *claim {
	var first *claim
	for _, b := range o.active {
		kind := implied(b)
		if b.UID == but {
			continue
		}
		if c := (claim{kind, of(b), b.UID}); first == nil || o.before(c, *first) {
			first = &c
		}
	}
	return first
}

// before tells whether what a claim is for was asked for before another's.
func (o *objects) before(a, b claim) bool {
	first := waiter{claim: a, asked: o.asked(a, time.Time{})}
	return first.order(waiter{claim: b, asked: o.asked(b, time.Time{})}) < 0
}

// holds tells whether a claim follows from its own object: who was at it when the
// controller ended goes on before anybody else.
func (o *objects) holds(me claim) bool {
	b := o.byUID[me.uid]
	if b == nil || implied(b) != me.kind {
		return false
	}
	cluster, ok := Of(b)
	return ok && cluster.key() == o.key
}

// ended tells whether a claim's Backup needs it no more.
func (o *objects) ended(c claim) bool {
	if c.kind != Backup && c.kind != Deletion {
		return false
	}
	b := o.byUID[c.uid]
	if b == nil {
		return true
	}
	if c.kind == Deletion {
		return b.DeletionTimestamp == nil || !held(b)
	}
	return b.DeletionTimestamp != nil || b.Status.Phase.Final()
}

// asked is when what a claim is for was asked for: of a backup the making, of a
// deletion the deletion.
func (o *objects) asked(c claim, now time.Time) time.Time {
	b := o.byUID[c.uid]
	switch {
	case b == nil:
		return now
	case c.kind == Deletion && b.DeletionTimestamp != nil:
		return b.DeletionTimestamp.Time
	}
	return b.CreationTimestamp.Time
}
