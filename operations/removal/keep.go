package removal

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// others are the Backups of the same storage: those of all namespaces below the prefix,
// or without one those of the namespace.
func (r *Remover) others(ctx context.Context, b *api.Backup) ([]*api.Backup, error) {
	if r.Cached == nil {
		return nil, nil
	}
	prefix, _ := Stored(b)
	options := []client.ListOption{client.UnsafeDisableDeepCopy}
	if prefix == "" {
		options = append(options, client.InNamespace(b.Namespace))
	}
	var all api.BackupList
	if err := r.Cached.List(ctx, &all, options...); err != nil {
		return nil, fmt.Errorf("reading the other Backups of the cluster: %w", err)
	}
	var others []*api.Backup
	for i := range all.Items {
		other := &all.Items[i]
		at, name := Stored(other)
		if name == "" || at != prefix || other.Namespace == b.Namespace && other.Name == b.Name || prefix == "" && other.Namespace != b.Namespace {
			continue
		}
		others = append(others, other)
	}
	return others, nil
}

// pinned is the error where another object says of the same data that they stay for
// good: who pins a backup does not know of all objects.
func pinned(name string, others []*api.Backup) error {
	for _, other := range others {
		if _, called := Stored(other); called == name && other.Spec.Pinned && other.DeletionTimestamp == nil {
			return &Kept{fmt.Sprintf("its data stay in the storage as %s, as Backup %s/%s is pinned, which has the same", name, other.Namespace, other.Name)}
		}
	}
	return nil
}

// expires is the error of a deletion by retention for which nothing speaks any more:
// what is newer and complete, for the sake of which it was decided, has gone meanwhile.
// A deletion may wait for days.
func expires(b *api.Backup, others []*api.Backup, list []node.Summary) error {
	if _, ok := b.Annotations[api.AnnotationExpiring]; !ok {
		return nil
	}
	for _, other := range others {
		keeps := other.Namespace == b.Namespace && other.Labels[api.LabelSchedule] == b.Labels[api.LabelSchedule] &&
			other.Status.Phase == api.BackupComplete && other.DeletionTimestamp == nil
		if keeps && (!whole(b) || newer(other, b)) && listed(other, list) {
			return nil
		}
	}
	_, name := Stored(b)
	return &Kept{fmt.Sprintf("its data stay in the storage as %s: retention was to delete it as there was a newer complete one of its schedule, and there is none any more", name)}
}

// whole tells of a Backup that is being deleted whether it was complete.
func whole(b *api.Backup) bool {
	return len(b.Status.Pods) > 0 && !slices.ContainsFunc(b.Status.Pods, func(p api.PodBackup) bool { return p.Phase != api.PodBackupComplete })
}

func newer(a, b *api.Backup) bool {
	if a.Status.Started == nil || b.Status.Started == nil {
		return false
	}
	return a.Status.Started.After(b.Status.Started.Time)
}

// listed tells whether the storage shows a part of each pod.
func listed(b *api.Backup, list []node.Summary) bool {
	_, name := Stored(b)
	at := slices.IndexFunc(list, func(s node.Summary) bool { return s.Name == name })
	return at >= 0 && len(b.Status.Pods) > 0 && !slices.ContainsFunc(b.Status.Pods, func(p api.PodBackup) bool {
		return !slices.Contains(list[at].Nodes, p.StorageNode())
	})
}

// absent judges a listing without the backup: it is gone, unless nothing of what other
// Backups of the namespace say is there either. Then the storage may be another one.
func absent(b *api.Backup, others []*api.Backup, list []node.Summary) error {
	there := map[string]bool{}
	for _, s := range list {
		there[s.Name] = true
	}
	_, name := Stored(b)
	var lacking []string
	for _, other := range others {
		_, called := Stored(other)
		if called == name || other.Namespace != b.Namespace || other.Status.Phase != api.BackupComplete && other.Status.Phase != api.BackupPartial {
			continue
		}
		if there[called] {
			return nil
		}
		lacking = append(lacking, called)
	}
	if len(lacking) == 0 {
		return nil
	}
	return waitFor(ListEmpty, nil, "the storage shows nothing of this backup, but nothing of %d others either that have to be there (%s): is it another bucket? Set deletionPolicy: Keep to let the object go", len(lacking), someOf(lacking))
}
