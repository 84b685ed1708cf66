package restore

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

const (
	crdEvery     = 10 * time.Second
	measureEvery = 15 * time.Second
	// forEver is longer than a process lives: an informer that cannot be filled, as the
	// CRD or a right is gone, must not end it. Databases are healed all the same.
	forEver = 10 * 365 * 24 * time.Hour
)

// runner runs the controller on the leader. It is not the manager's own: that waits
// for its controllers' informers, and ends the process where they cannot be filled.
type runner struct {
	mgr        manager.Manager
	reconciler *reconciler
	sweeper    *sweeper
	log        logr.Logger
	pause      time.Duration // in a test; 0 for crdEvery
}

// NeedLeaderElection is so: two would delete each other's pods.
func (*runner) NeedLeaderElection() bool { return true }

// Start runs until the context ends, and never fails.
func (r *runner) Start(ctx context.Context) error {
	if r.pause == 0 {
		r.pause = crdEvery
	}
	for told := ""; ctx.Err() == nil; {
		var list api.RestoreList
		err := r.mgr.GetAPIReader().List(ctx, &list, client.Limit(1))
		if err == nil {
			err = r.run(ctx)
		}
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			r.log.Error(err, "Restores are not looked after until this is remedied; is the CustomResourceDefinition restores.stategraft.io installed, and may the controller list them?")
		}
		select {
		case <-ctx.Done():
		case <-time.After(r.pause):
		}
	}
	return nil
}

// run makes the controller and its informer of Restores, and runs them.
func (r *runner) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	restores, err := cache.New(r.mgr.GetConfig(), cache.Options{HTTPClient: r.mgr.GetHTTPClient(), Scheme: r.mgr.GetScheme(), Mapper: r.mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return fmt.Errorf("watching Restores: %w", err)
	}
	c, err := controller.NewUnmanaged("restore", controller.Options{
		Reconciler: r.reconciler, Logger: r.log, MaxConcurrentReconciles: workers, CacheSyncTimeout: forEver, SkipNameValidation: new(true),
		// An API server that is gone for a minute must not leave pods alone for a quarter of an hour.
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 20*time.Second),
	})
	if err != nil {
		return fmt.Errorf("making the controller of Restores: %w", err)
	}
	toRestores := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, pod *corev1.Pod) []reconcile.Request {
		return r.reconciler.index.find(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	})
	for _, s := range []source.Source{
		source.Kind(restores, &api.Restore{}, &handler.TypedEnqueueRequestForObject[*api.Restore]{}, asked),
		source.Kind(r.mgr.GetCache(), &corev1.Pod{}, toRestores),
	} {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watching for Restores: %w", err)
		}
	}
	failed := make(chan error, 2)
	go func() { failed <- restores.Start(ctx) }()
	go func() { failed <- c.Start(ctx) }()
	go r.sweeper.run(ctx)
	go r.reconciler.keepMarks(ctx)
	go measureAll(ctx, restores, r.reconciler.clock)
	err = <-failed
	cancel()
	if other := <-failed; err == nil {
		err = other
	}
	return err
}

// asked lets through what somebody else may have changed. Our own writing of the
// status is no reason to look again: what comes next has its time.
var asked = predicate.TypedFuncs[*api.Restore]{
	UpdateFunc: func(e event.TypedUpdateEvent[*api.Restore]) bool {
		return e.ObjectOld.Generation != e.ObjectNew.Generation || e.ObjectOld.UID != e.ObjectNew.UID ||
			(e.ObjectOld.DeletionTimestamp == nil) != (e.ObjectNew.DeletionTimestamp == nil)
	},
}

// measureAll keeps the gauges up to date.
func measureAll(ctx context.Context, restores client.Reader, clock func() time.Time) {
	for ctx.Err() == nil {
		var list api.RestoreList
		if err := restores.List(ctx, &list, client.UnsafeDisableDeepCopy); err == nil {
			measure(list.Items, clock())
		}
		select {
		case <-ctx.Done():
		case <-time.After(measureEvery):
		}
	}
	measure(nil, clock())
}
