package rpo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/coverage"
	"github.com/stategraft/stategraft/operations/objects"
)

// DefaultEvery is how often all is looked at, beside when a Backup ends.
const DefaultEvery = 30 * time.Second

// atMost is how often Backups that end, one after the other, have all looked at.
const atMost = 2 * time.Second

// Options say how backups are looked after.
type Options struct {
	Namespace string // Stategraft's own
	// Uncovered lists the pods without a sidecar; nil for coverage.FindUncovered.
	Uncovered func() []coverage.Uncovered
	Every     time.Duration    // 0 for DefaultEvery
	Clock     func() time.Time // nil for time.Now
}

// Add adds the controller to a Group, of a manager whose cache has the injected pods as
// heal.ByObject restricts it. It may be added once in a process.
func Add(g *objects.Group, o Options) error {
	if o.Namespace == "" {
		return errors.New("looking at the age of backups needs to know Stategraft's own namespace")
	}
	if o.Uncovered == nil {
		o.Uncovered = coverage.FindUncovered
	}
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	mgr := g.Manager
	tell := &teller{status: mgr.GetClient(), events: mgr.GetEventRecorder("stategraft-controller")}
	g.Add(func(_ context.Context, cached cache.Cache) ([]objects.Runner, error) {
		r := &reconciler{tell: tell, every: o.Every, now: o.Clock, out: exported,
			from: &source{objects: cached, cached: mgr.GetCache(), live: mgr.GetAPIReader(), own: o.Namespace, uncovered: o.Uncovered}}
		c, err := objects.NewController("backup-rpo", 1, mgr.GetLogger().WithName("rpo"), r)
		if err != nil {
			return nil, err
		}
		for _, s := range []ctrlsource.Source{
			ctrlsource.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
				queue.Add(all)
				return nil
			}),
			ctrlsource.Kind(cached, &api.Backup{}, handler.TypedEnqueueRequestsFromMapFunc(toAll[*api.Backup]), ends),
			ctrlsource.Kind(cached, &api.BackupSchedule{}, handler.TypedEnqueueRequestsFromMapFunc(toAll[*api.BackupSchedule]), altered),
		} {
			if err := c.Watch(s); err != nil {
				return nil, fmt.Errorf("watching for the age of backups: %w", err)
			}
		}
		return []objects.Runner{c, objects.Func(func(ctx context.Context) error {
			<-ctx.Done()
			exported.figures.Store(nil) // what nobody looks at any more is not told
			return nil
		})}, nil
	})
	return nil
}

// all is the one request that there is.
var all = reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}

func toAll[T client.Object](context.Context, T) []reconcile.Request { return []reconcile.Request{all} }

// ends lets through a Backup that has come to another phase, and not its progress.
var ends = predicate.TypedFuncs[*api.Backup]{
	UpdateFunc: func(e event.TypedUpdateEvent[*api.Backup]) bool {
		return e.ObjectOld.UID != e.ObjectNew.UID || e.ObjectOld.Status.Phase != e.ObjectNew.Status.Phase
	},
}

// altered lets through a BackupSchedule of which something else is asked.
var altered = predicate.TypedFuncs[*api.BackupSchedule]{
	UpdateFunc: func(e event.TypedUpdateEvent[*api.BackupSchedule]) bool {
		return e.ObjectOld.UID != e.ObjectNew.UID || e.ObjectOld.Generation != e.ObjectNew.Generation
	},
}

// reconciler looks at all pods at once: there are few figures of each, and what is told
// is of workloads and schedules.
type reconciler struct {
	from  *source
	tell  *teller
	out   *collector
	every time.Duration
	now   func() time.Time
	last  time.Time
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now := r.now()
	if since := now.Sub(r.last); since >= 0 && since < atMost { // a clock may be set back
		return reconcile.Result{RequeueAfter: atMost - since}, nil
	}
	r.last = now
	in, err := r.from.gather(ctx, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	rows := Rows(in)
	r.out.figures.Store(figuresOf(rows, r.now))
	again, err := r.tell.tell(ctx, in.Schedules, rows, now)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case again:
		return reconcile.Result{RequeueAfter: atMost}, nil
	}
	return reconcile.Result{RequeueAfter: r.every}, nil
}
