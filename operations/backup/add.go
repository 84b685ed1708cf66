package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/objects"
)

// Add adds the controller to the group.
func Add(g *objects.Group, o Options) error {
	if o.Namespace == "" || o.Sidecars == nil || o.Turns == nil || o.Remover == nil {
		return errors.New("backing up needs to know Stategraft's own namespace, whom to ask about pods and whose turn it is, and who deletes data")
	}
	o.fill()
	tell := recorder{g.Manager.GetEventRecorder("stategraft-controller")}
	g.Add(func(_ context.Context, cached cache.Cache) ([]objects.Runner, error) {
		mgr := g.Manager
		served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return nil, fmt.Errorf("asking which kinds are served: %w", err)
		}
		l := &live{objects: cached, cached: mgr.GetCache(), reader: mgr.GetAPIReader(), writer: mgr.GetClient(),
			served: served.ServerResourcesForGroupVersion, own: o.Namespace}
		log := g.Log.WithName("backup")
		r := newReconciler(l, &talks{o.Sidecars, make(chan struct{}, o.Conversations)}, o.Turns(cached), tell, o)
		r.log = log
		c, err := objects.NewController("backup", workers, log, r)
		if err != nil {
			return nil, err
		}
		if err := c.Watch(source.Kind(cached, &api.Backup{}, &handler.TypedEnqueueRequestForObject[*api.Backup]{}, asked)); err != nil {
			return nil, fmt.Errorf("watching for Backups: %w", err)
		}
		return []objects.Runner{c, objects.Func(func(ctx context.Context) error { return expose(ctx, cached) })}, nil
	})
	return nil
}

func (o *Options) fill() {
	if o.AbsentLimit == 0 {
		o.AbsentLimit = defaultAbsentLimit
	}
	if o.Conversations == 0 {
		o.Conversations = defaultConversations
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
}

func newReconciler(c cluster, ask asker, turns Turns, tell teller, o Options) *reconciler {
	return &reconciler{cluster: c, ask: ask, turns: turns, remover: o.Remover, tell: tell, clock: o.Clock,
		book: newBook(), limit: o.AbsentLimit, removing: make(chan struct{}, removers), blaming: make(chan struct{}, blamers), each: together}
}

// expose has the gauges told as long as this process leads.
func expose(ctx context.Context, cached client.Reader) error {
	exported.reader.Store(&cached)
	<-ctx.Done()
	exported.reader.Store(nil)
	return nil
}

// asked lets through what somebody else may have changed. Our own writing of the
// status is no reason to look again: what comes next has its time.
var asked = predicate.TypedFuncs[*api.Backup]{
	UpdateFunc: func(e event.TypedUpdateEvent[*api.Backup]) bool {
		return e.ObjectOld.Generation != e.ObjectNew.Generation || e.ObjectOld.UID != e.ObjectNew.UID ||
			(e.ObjectOld.DeletionTimestamp == nil) != (e.ObjectNew.DeletionTimestamp == nil)
	},
}
