package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/objects"
)

// Options say how to verify.
type Options struct {
	Clock func() time.Time // nil for time.Now
	Every time.Duration    // between two looks at a pod; 0 for ten seconds
}

// Add adds the controllers to the group.
func Add(g *objects.Group, o Options) error {
	if g == nil || g.Manager == nil {
		return errors.New("verifying needs a group with a manager")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Every <= 0 {
		o.Every = usualEvery
	}
	g.Add(func(ctx context.Context, cached cache.Cache) ([]objects.Runner, error) {
		return setup(ctx, g, cached, o)
	})
	return nil
}

func setup(_ context.Context, g *objects.Group, cached cache.Cache, o Options) ([]objects.Runner, error) {
	mgr, log := g.Manager, g.Log.WithName("verify")
	w := &world{cached: cached, known: mgr.GetCache(), live: mgr.GetAPIReader(), writer: mgr.GetClient()}
	tell := recorder{mgr.GetEventRecorder("stategraft-controller")}
	start := &starts{world: w, tell: tell, clock: o.Clock, every: o.Every, log: log, begun: map[types.UID]begun{}}
	run := &runs{world: w, tell: tell, clock: o.Clock, every: o.Every, log: log}
	schedules, err := objects.NewController("verify-schedule", 1, log, start)
	if err != nil {
		return nil, err
	}
	backups, err := objects.NewController("verify", mostInAll, log, run)
	if err != nil {
		return nil, err
	}
	if err := watch(cached, schedules, backups); err != nil {
		return nil, fmt.Errorf("watching for verifications: %w", err)
	}
	exporting := objects.Func(func(ctx context.Context) error {
		exported.world.Store(w)
		defer exported.world.Store(nil)
		<-ctx.Done()
		return nil
	})
	return []objects.Runner{schedules, backups, &sweeper{world: w, clock: o.Clock, log: log}, exporting}, nil
}

// watch has schedules looked at when they or their Backups change, and Backups when they
// do.
func watch(cached cache.Cache, schedules, backups controller.Controller) error {
	return errors.Join(
		schedules.Watch(source.Kind(cached, &api.BackupSchedule{}, &handler.TypedEnqueueRequestForObject[*api.BackupSchedule]{})),
		schedules.Watch(source.Kind(cached, &api.Backup{}, handler.TypedEnqueueRequestsFromMapFunc(scheduleFor))),
		backups.Watch(source.Kind(cached, &api.Backup{}, &handler.TypedEnqueueRequestForObject[*api.Backup]{})),
	)
}

// scheduleFor is the schedule that a Backup's verification is told to.
func scheduleFor(_ context.Context, b *api.Backup) []reconcile.Request {
	name := b.Labels[api.LabelSchedule]
	if name == "" || b.Status.Verified == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: b.Namespace, Name: name}}}
}
