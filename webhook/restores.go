package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Restores knows what Restore objects have to do with pods. It follows all of them,
// and keeps those that still have something to do with some pod: an admission while
// there are none loads one pointer.
type Restores struct {
	current atomic.Pointer[orderSet] // nil while no Restore has orders
	log     logr.Logger
	began   time.Time

	mu    sync.Mutex // of those that write current
	state atomic.Pointer[watchState]
}

// orderSet holds, by namespace, the Restores that have orders, the oldest first. It is
// never changed once it is stored, nor are the objects.
type orderSet map[string][]*api.Restore

// watchState is how far the watch is.
type watchState struct {
	err    error // why there is none yet
	synced func() bool
}

// crdRetry is how soon a definition of Restores that was not there is looked for
// again.
var crdRetry = 10 * time.Second

// restoresWait is how long a new replica waits for the Restores before it serves all
// the same: for others than those to be restored, which the policy holds, no webhook
// is worse than one that knows of no Restores.
const restoresWait = time.Minute

// WatchRestores follows the Restores of all namespaces with the cache. Where the
// cluster does not know the kind, it is looked for again in the background until the
// context ends.
func WatchRestores(ctx context.Context, c cache.Cache, log logr.Logger) (*Restores, error) {
	r := &Restores{log: log, began: time.Now()}
	if c == nil {
		return nil, errors.New("watching Restores: there is no cache")
	}
	if !r.watch(ctx, c) {
		go r.keepTrying(ctx, c, crdRetry)
	}
	return r, nil
}

func (r *Restores) keepTrying(ctx context.Context, c cache.Cache, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if r.watch(ctx, c) {
				r.log.Info("Restores are watched now")
				return
			}
		}
	}
}

// watch starts the informer. The log has the same reason for a failure once.
func (r *Restores) watch(ctx context.Context, c cache.Cache) bool {
	informer, err := c.GetInformer(ctx, &api.Restore{}, cache.BlockUntilSynced(false))
	var registration toolscache.ResourceEventHandlerRegistration
	if err == nil {
		registration, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    r.seen,
			UpdateFunc: func(_, object any) { r.seen(object) },
			DeleteFunc: r.gone,
		})
	}
	if err == nil {
		r.state.Store(&watchState{synced: registration.HasSynced})
		return true
	}
	if before := r.state.Swap(&watchState{err: err}); before == nil || before.err.Error() != err.Error() {
		r.log.Error(err, "Restores are not watched, their pods are held by the policy alone")
	}
	return false
}

// Ready tells whether all Restores that there are have been seen; it does not wait
// for a kind that the cluster does not know, nor for ever.
func (r *Restores) Ready(*http.Request) error {
	state := r.state.Load()
	switch {
	case state.synced != nil && state.synced(), time.Since(r.began) > restoresWait:
		return nil
	case state.synced != nil:
		return errors.New("the Restores are not known yet")
	case meta.IsNoMatchError(state.err):
		return nil
	}
	return fmt.Errorf("watching Restores: %w", state.err)
}

func (r *Restores) seen(object any) {
	if restore, ok := object.(*api.Restore); ok {
		r.put(types.NamespacedName{Namespace: restore.Namespace, Name: restore.Name}, restore)
	}
}

func (r *Restores) gone(object any) {
	if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	if restore, ok := object.(*api.Restore); ok {
		r.put(types.NamespacedName{Namespace: restore.Namespace, Name: restore.Name}, nil)
	}
}

// put takes over a Restore, or that there is none. What is published is a copy of the
// set with the list of one namespace made anew: how many pods a Restore has does not
// matter, as they are looked up only when one comes.
func (r *Restores) put(key types.NamespacedName, restore *api.Restore) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var before orderSet
	if set := r.current.Load(); set != nil {
		before = *set
	}
	list := slices.DeleteFunc(slices.Clone(before[key.Namespace]), func(other *api.Restore) bool { return other.Name == key.Name })
	if restore != nil && ordersAny(restore) {
		list = append(list, restore)
		slices.SortFunc(list, older)
	}
	if len(list) == 0 && len(before[key.Namespace]) == 0 {
		return
	}
	after := maps.Clone(before)
	if after == nil {
		after = orderSet{}
	}
	after[key.Namespace] = list
	if len(list) == 0 {
		delete(after, key.Namespace)
	}
	if len(after) == 0 {
		r.current.Store(nil)
		return
	}
	r.current.Store(&after)
}

// ordersAny tells whether a Restore still has something to do with some pod.
func ordersAny(restore *api.Restore) bool {
	return len(restore.Status.Pending) > 0 || slices.ContainsFunc(restore.Status.Pods, func(p api.PodRestore) bool { return p.Previous })
}

func older(a, b *api.Restore) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// Find tells what Restores have to do with a pod: what is pending before what is to be
// tidied up, and of several the oldest.
func (r *Restores) Find(namespace, pod string) (found api.Order, ok bool) {
	set := r.current.Load()
	if set == nil {
		return api.Order{}, false
	}
	for _, restore := range (*set)[namespace] {
		order, any := restore.Order(pod)
		switch {
		case any && order.Pending:
			return order, true
		case any && !ok:
			found, ok = order, true
		}
	}
	return found, ok
}
