// Package objects runs the controllers of Backups and BackupSchedules, on one informer
// of each kind. They are not the manager's own: that waits for its controllers'
// informers, and ends the process where they cannot be filled, as without a
// CustomResourceDefinition. Databases are healed and restored all the same.
package objects

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

const (
	crdEvery = 10 * time.Second
	// forEver is longer than a process lives.
	forEver = 10 * 365 * 24 * time.Hour
)

// Runner is what a controller has to run until the context ends.
type Runner interface {
	Start(ctx context.Context) error
}

// Func is a Runner of a function.
type Func func(ctx context.Context) error

// Start implements Runner.
func (f Func) Start(ctx context.Context) error { return f(ctx) }

// Setup makes the runners of one controller. Cached reads Backups, BackupSchedules and
// Restores from informers, which are filled before any runner starts; what is read from
// it is shared and is not to be changed. It is called anew when all has ended and
// begins again.
type Setup func(ctx context.Context, cached cache.Cache) ([]Runner, error)

// Group is a runnable of the manager, on the leader.
type Group struct {
	Manager manager.Manager
	Log     logr.Logger
	Pause   time.Duration // before it is tried again; 0 for ten seconds

	setups []Setup
}

// New makes a Group without controllers, which is to be added to the manager.
func New(mgr manager.Manager) *Group {
	return &Group{Manager: mgr, Log: mgr.GetLogger().WithName("backups")}
}

// Add adds a controller, before the manager starts.
func (g *Group) Add(s Setup) { g.setups = append(g.setups, s) }

// NeedLeaderElection is so: two would do everything twice.
func (*Group) NeedLeaderElection() bool { return true }

// Start runs until the context ends, and never fails.
func (g *Group) Start(ctx context.Context) error {
	pause := g.Pause
	if pause == 0 {
		pause = crdEvery
	}
	for told := ""; ctx.Err() == nil; {
		err := g.served(ctx)
		if err == nil {
			err = g.run(ctx)
		}
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			g.Log.Error(err, "backups are not looked after until this is remedied; are the CustomResourceDefinitions of "+api.Group+" installed, and may the controller list them?")
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// kinds are those with an informer.
func kinds() map[client.Object]client.ObjectList {
	return map[client.Object]client.ObjectList{
		&api.Backup{}: &api.BackupList{}, &api.BackupSchedule{}: &api.BackupScheduleList{}, &api.Restore{}: &api.RestoreList{},
	}
}

func (g *Group) served(ctx context.Context) error {
	for _, list := range kinds() {
		if err := g.Manager.GetAPIReader().List(ctx, list, client.Limit(1)); err != nil {
			return fmt.Errorf("listing: %w", err)
		}
	}
	return nil
}

// run makes the informers and all controllers, and runs them until one ends.
func (g *Group) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mgr := g.Manager
	cached, err := cache.New(mgr.GetConfig(), cache.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return fmt.Errorf("making informers: %w", err)
	}
	for object := range kinds() {
		if _, err := cached.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("making an informer: %w", err)
		}
	}
	var runners []Runner
	for _, setup := range g.setups {
		made, err := setup(ctx, cached)
		if err != nil {
			return err
		}
		runners = append(runners, made...)
	}
	failed := make(chan error, 1+len(runners))
	go func() { failed <- cached.Start(ctx) }()
	started := 1
	if cached.WaitForCacheSync(ctx) {
		for _, r := range runners {
			go func() { failed <- r.Start(ctx) }()
			started++
		}
	}
	err = <-failed
	cancel()
	for range started - 1 {
		err = errors.Join(err, <-failed)
	}
	return err
}

// NewController makes a controller as all of the Group's are: an API server that is gone for a
// minute does not have an object left alone for a quarter of an hour.
func NewController(name string, workers int, log logr.Logger, r reconcile.Reconciler) (controller.Controller, error) {
	c, err := controller.NewUnmanaged(name, controller.Options{
		Reconciler: r, Logger: log, MaxConcurrentReconciles: workers, CacheSyncTimeout: forEver, SkipNameValidation: new(true),
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 20*time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("making the controller %s: %w", name, err)
	}
	return c, nil
}
