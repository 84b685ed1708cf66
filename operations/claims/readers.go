package claims

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// root is what the status of a Restore has for the root of the bucket: nothing stands
// for the prefix of its pods (operations/restore).
const root = "."

// reader is the restore that a claim has to wait for, on trial or not.
func (o *objects) reader(me claim) (*claim, error) {
	if !me.takesTurn() {
		return nil, nil
	}
	b := o.byUID[me.uid]
	if me.kind == Deletion && b != nil && b.Status.Verified != nil && b.Status.Verified.Result == api.VerificationRunning {
		return &claim{kind: Verify, who: of(b)}, nil
	}
	for i := range o.restores {
		r := &o.restores[i]
		if !meta.IsStatusConditionTrue(r.Status.Conditions, api.ConditionAccepted) || r.Spec.DryRun {
			continue
		}
		waits, err := o.waits(r, me, b)
		if err != nil {
			return nil, err
		}
		if waits {
			return &claim{kind: Restore, who: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}}, nil
		}
	}
	return nil, nil
}

// waits tells whether a claim waits for a Restore that was accepted: a deletion for who
// reads below the prefix, and a backup for who writes to the nodes that it is of. To be
// read from does a backup no harm.
func (o *objects) waits(r *api.Restore, me claim, b *api.Backup) (bool, error) {
	final := r.Status.Phase.Final()
	if final && (me.kind != Deletion || len(r.Status.Pending) == 0) {
		return false, nil
	}
	pods, known, err := o.clusterOf(r)
	if err != nil {
		return false, err
	}
	prefix, away := source(r)
	reads := known && pods.key() == o.key
	if away {
		reads = prefix == o.key.Prefix
	}
	switch {
	case final: // it goes on holding the pods that are not restored, and they try to
		return b != nil && r.Status.Backup == stored(b) && (reads || !away && !known), nil
	case me.kind != Backup && reads, known && pods.key() == o.key:
		return true, nil
	case r.Namespace != me.who.Namespace:
		return false, nil
	case known && !away && !settled(b):
		return false, nil // its pods are another cluster's
	}
	return overlap(b, r), nil
}

// source is the prefix that a Restore reads below, if that is not its pods' own. The status
// has it once the storage was looked at.
func source(r *api.Restore) (prefix string, away bool) {
	switch from := r.Spec.Source; {
	case r.Status.Prefix == root:
		return "", true
	case r.Status.Prefix != "":
		return r.Status.Prefix, true
	case from != nil && from.Prefix != nil:
		return *from.Prefix, true
	case from != nil && from.Cluster != "":
		namespace, cluster, _ := strings.Cut(from.Cluster, "/")
		return node.Prefix(namespace, cluster), true
	}
	return "", false
}

// clusterOf is the cluster of the pods of a Restore, as the newest Backup tells that has
// one of them. What they read may be another's: status.prefix tells.
func (o *objects) clusterOf(r *api.Restore) (of Cluster, known bool, err error) {
	all, err := o.within(r.Namespace)
	if err != nil {
		return Cluster{}, false, err
	}
	var newest *api.Backup
	for _, b := range all {
		if b.Status.Name == "" || newest != nil && !newest.CreationTimestamp.Before(&b.CreationTimestamp) {
			continue
		}
		if slices.ContainsFunc(b.Status.Pods, func(p api.PodBackup) bool { return r.Status.Pod(p.Name) != nil }) {
			newest = b
		}
	}
	if newest == nil {
		return Cluster{}, false, nil
	}
	of, known = Of(newest)
	return of, known, nil
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
