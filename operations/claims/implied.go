package claims

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// ReasonDeleting is the reason of the condition Deleted from before the first data are
// deleted until all are, or until it has to wait: with it a Backup has the turn.
const ReasonDeleting = "Deleting"

// objects are the informers' at one time. They are not changed.
type objects struct {
	backups  []api.Backup
	restores []api.Restore
	byUID    map[types.UID]*api.Backup
}

func (c *Claims) read(ctx context.Context) (*objects, error) {
	var backups api.BackupList
	if err := c.cached.List(ctx, &backups, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("reading which backups run: %w", err)
	}
	var restores api.RestoreList
	if err := c.cached.List(ctx, &restores, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("reading which restores run: %w", err)
	}
	o := &objects{backups.Items, restores.Items, make(map[types.UID]*api.Backup, len(backups.Items))}
	for i := range o.backups {
		o.byUID[o.backups[i].UID] = &o.backups[i]
	}
	return o, nil
}

// implied is the claim that follows from a Backup; "" for none. One that is being
// deleted has begun nothing, or what runs of it the sidecars tell.
func implied(b *api.Backup) Kind {
	switch {
	case b.DeletionTimestamp != nil:
		deleted := meta.FindStatusCondition(b.Status.Conditions, api.ConditionDeleted)
		if b.Status.Phase == api.BackupDeleting && deleted != nil && deleted.Reason == ReasonDeleting {
			return Deletion
		}
	case b.Found() || b.Spec.DryRun:
	case b.Status.Name != "" && !b.Status.Phase.Final():
		return Backup
	}
	return ""
}

func of(b *api.Backup) types.NamespacedName {
	return types.NamespacedName{Namespace: b.Namespace, Name: b.Name}
}

// holder is who has the turn of a cluster by its object, but for one. There ought to be
// one at the most; of several it is the one that was asked for first, so that they do not
// wait for each other.
func (o *objects) holder(key Cluster, but types.UID) *claim {
	var first *claim
	for i := range o.backups {
		b := &o.backups[i]
		kind := implied(b)
		if kind == "" || b.UID == but {
			continue
		}
		if cluster, ok := Of(b); !ok || cluster.key() != key {
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
	n := o.asked(a, time.Time{}).Compare(o.asked(b, time.Time{}))
	return n < 0 || n == 0 && a.uid < b.uid
}

// holds tells whether a claim follows from its own object: who was at it when the
// controller ended goes on before anybody else.
func (o *objects) holds(key Cluster, me claim) bool {
	b := o.byUID[me.uid]
	if b == nil || implied(b) != me.kind {
		return false
	}
	cluster, ok := Of(b)
	return ok && cluster.key() == key
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
		return b.DeletionTimestamp == nil
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

// reader is the restore that a claim has to wait for, on trial or not.
func (o *objects) reader(key Cluster, me claim) *claim {
	if !me.takesTurn() {
		return nil
	}
	b := o.byUID[me.uid]
	if me.kind == Deletion && b != nil && b.Status.Verified != nil && b.Status.Verified.Result == api.VerificationRunning {
		return &claim{kind: Verify, who: of(b)}
	}
	for i := range o.restores {
		r := &o.restores[i]
		if o.reads(r, key, me, b) {
			return &claim{kind: Restore, who: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}}
		}
	}
	return nil
}

func (o *objects) reads(r *api.Restore, key Cluster, me claim, b *api.Backup) bool {
	if !meta.IsStatusConditionTrue(r.Status.Conditions, api.ConditionAccepted) || r.Spec.DryRun {
		return false
	}
	of, known := o.clusterOf(r)
	same := known && of.key() == key
	// One that failed goes on holding the pods that are not restored, and they try to.
	if r.Status.Phase.Final() {
		return me.kind == Deletion && len(r.Status.Pending) > 0 && b != nil && r.Status.Backup == stored(b) && (same || !known)
	}
	if same || r.Namespace != me.who.Namespace {
		return same
	}
	if known && r.Status.Prefix == "" && !settled(b) {
		return false // its pods are another cluster's
	}
	return overlap(b, r)
}

// clusterOf is the cluster of the pods of a Restore, and of what they read: what its
// status says, else that of a Backup that has one of them.
func (o *objects) clusterOf(r *api.Restore) (Cluster, bool) {
	if r.Status.Prefix != "" {
		return Cluster{r.Status.Prefix, r.Namespace}, true
	}
	var newest *api.Backup
	for i := range o.backups {
		b := &o.backups[i]
		if b.Namespace != r.Namespace || b.Status.Name == "" || newest != nil && !newest.CreationTimestamp.Before(&b.CreationTimestamp) {
			continue
		}
		if slices.ContainsFunc(b.Status.Pods, func(p api.PodBackup) bool { return r.Status.Pod(p.Name) != nil }) {
			newest = b
		}
	}
	if newest == nil {
		return Cluster{}, false
	}
	return Of(newest)
}

// stored is the Backup's name in the storage.
func stored(b *api.Backup) string {
	if b.Status.Name == "" && b.Spec.Existing != nil {
		return b.Spec.Existing.Name
	}
	return b.Status.Name
}

// settled tells whether the pods of a Backup can be told by their names.
func settled(b *api.Backup) bool {
	return b != nil && (len(b.Status.Pods) > 0 || b.Spec.Pods != nil && b.Spec.Pods.Selector == nil)
}

// overlap tells whether a Restore may have a pod of the Backup, in the same namespace.
// As long as nobody can tell, it has.
func overlap(b *api.Backup, r *api.Restore) bool {
	if !settled(b) || len(r.Status.Pods) == 0 {
		return true
	}
	return slices.ContainsFunc(r.Status.Pods, func(p api.PodRestore) bool { return has(b, p.Name) })
}

func has(b *api.Backup, pod string) bool {
	if len(b.Status.Pods) > 0 {
		return b.Status.Pod(pod) != nil
	}
	if of := b.Spec.Pods.Workload; of != nil {
		return strings.HasPrefix(pod, of.Name+"-")
	}
	return slices.Contains(b.Spec.Pods.Names, pod)
}
