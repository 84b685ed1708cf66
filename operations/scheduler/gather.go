package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// indexCluster finds the Backups of a cluster in the cache, by key.
const indexCluster = "scheduler/cluster"

// index adds the index to the informer of Backups.
func index(ctx context.Context, to client.FieldIndexer) error {
	if err := to.IndexField(ctx, &api.Backup{}, indexCluster, keysOf); err != nil {
		return fmt.Errorf("indexing Backups: %w", err)
	}
	return nil
}

func keysOf(o client.Object) []string {
	b, ok := o.(*api.Backup)
	if !ok || b.Status.Name == "" && !b.Found() {
		return nil
	}
	return []string{key(b.Namespace, prefixOf(b))}
}

// key is that of a cluster's storage. Two namespaces may share a prefix; where there is
// none, each is taken for itself.
func key(namespace, prefix string) string {
	if prefix == "" {
		return "namespace/" + namespace
	}
	return "prefix/" + prefix
}

// gather reads from the cache what is there of a schedule.
func (r *reconciler) gather(ctx context.Context, s *api.BackupSchedule) (*world, error) {
	w := &world{marked: r.marks.of()}
	var own api.BackupList
	if err := r.cached.List(ctx, &own, client.InNamespace(s.Namespace), client.MatchingLabels{api.LabelSchedule: s.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Backups: %w", err)
	}
	mine := map[types.UID]bool{}
	for i := range own.Items {
		w.own, mine[own.Items[i].UID] = append(w.own, &own.Items[i]), true
	}
	newestFirst(w.own)
	if prefix, known := w.cluster(s); known {
		var all api.BackupList
		if err := r.cached.List(ctx, &all, client.MatchingFields{indexCluster: key(s.Namespace, prefix)}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the Backups of the cluster: %w", err)
		}
		for i := range all.Items {
			if b := &all.Items[i]; !mine[b.UID] && !b.Spec.DryRun {
				w.others = append(w.others, b)
			}
		}
		newestFirst(w.others)
		if kind, who, held := r.claims.Holder(s.Namespace, prefix); held {
			w.holder = &holder{kind, who}
		}
	}
	var restores api.RestoreList
	if err := r.cached.List(ctx, &restores, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Restores: %w", err)
	}
	for i := range restores.Items {
		if using(&restores.Items[i]) {
			w.restores = append(w.restores, &restores.Items[i])
		}
	}
	return w, nil
}

// marks remembers which Backups were asked to be deleted, until the cache shows it. A
// process that starts anew reads what is there.
type marks struct {
	mu sync.Mutex
	at map[types.UID]time.Time
}

// markFor is far longer than a cache is behind.
const markFor = 10 * time.Minute

func (m *marks) add(uid types.UID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for old, at := range m.at {
		if now.Sub(at) > markFor {
			delete(m.at, old)
		}
	}
	m.at[uid] = now
}

func (m *marks) of() map[types.UID]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[types.UID]bool, len(m.at))
	for uid := range m.at {
		all[uid] = true
	}
	return all
}

// turns lets one at a time decide about the deletions of a cluster.
type turns struct {
	mu    sync.Mutex
	taken map[string]bool
}

// take tells whether it is one's turn; give gives it back.
func (t *turns) take(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken[key] {
		return false
	}
	t.taken[key] = true
	return true
}

func (t *turns) give(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.taken, key)
}
