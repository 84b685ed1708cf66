// Package expose keeps a Service for each pod that is to be reached by an address of its
// own from outside (annotation stategraft.io/expose: LoadBalancer), and writes the address
// that the provider gives it on the pod. Clients of Anna are told the address of the very
// node that has a key, so one Service for all of them does not do.
//
//	plan.go       what is to be made, kept and removed; pure
//	service.go    a pod's Service, its ports and its address; pure
//	reconcile.go  one namespace after the other
//	effects.go    what is written
//
// The Service belongs to the StatefulSet and goes by the pod's name, so the address
// survives the pod. A pod that is being re-created keeps it; one that is scaled away loses
// it after a while, so that scaling to nothing and back does not change all addresses.
package expose

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/objects"
)

const (
	// DefaultLinger is how long the Service of a pod that is scaled away is kept.
	DefaultLinger = 10 * time.Minute
	// patience is how long a provider may take to give an address before that is told.
	patience = 2 * time.Minute
	// settle is how long after a change a namespace is looked at: pods come many at once.
	settle = 500 * time.Millisecond
	// workers are how many namespaces are looked at at a time.
	workers = 2
)

// Options say how pods are exposed.
type Options struct {
	Namespace string           // Stategraft's own
	Linger    time.Duration    // 0 for DefaultLinger
	Clock     func() time.Time // nil for time.Now
}

// Add adds the controller to a manager whose cache has the injected pods and the
// StatefulSets as heal.ByObject restricts them. It runs on the leader. Of Services only
// ours are watched, in a cache of its own: who may not list them yet, after an upgrade of
// the program alone, has all else run all the same.
func Add(mgr manager.Manager, o Options) error {
	if o.Namespace == "" {
		return errors.New("exposing pods needs to know Stategraft's own namespace")
	}
	if o.Linger <= 0 {
		o.Linger = DefaultLinger
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	services, err := servicesCache(mgr)
	if err != nil {
		return err
	}
	r := &reconciler{cached: mgr.GetCache(), services: services, live: mgr.GetAPIReader(), own: o.Namespace, linger: o.Linger, now: o.Clock,
		write: &writer{client: mgr.GetClient(), events: mgr.GetEventRecorder("stategraft-controller")}, memory: newMemory()}
	c, err := objects.NewController("expose", workers, mgr.GetLogger().WithName("expose"), r)
	if err != nil {
		return err
	}
	for _, s := range []source.Source{
		source.Kind(mgr.GetCache(), &corev1.Pod{}, later[*corev1.Pod](client.Object.GetNamespace), podChanged),
		source.Kind(mgr.GetCache(), namespaceMeta(), later[*metav1.PartialObjectMetadata](client.Object.GetName), namespaceChanged),
		source.Kind(mgr.GetCache(), &appsv1.StatefulSet{}, later[*appsv1.StatefulSet](client.Object.GetNamespace), setChanged),
		source.Kind(services, &corev1.Service{}, later[*corev1.Service](client.Object.GetNamespace)),
	} {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watching for pods to expose: %w", err)
		}
	}
	for _, runnable := range []manager.Runnable{onLeader{services}, c} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("adding to the manager: %w", err)
		}
	}
	return nil
}

// servicesCache makes a cache of our Services.
func servicesCache(mgr manager.Manager) (cache.Cache, error) {
	ours, err := labels.NewRequirement(api.LabelExposed, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("selecting Services: %w", err)
	}
	c, err := cache.New(mgr.GetConfig(), cache.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&corev1.Service{}: {Label: labels.NewSelector().Add(*ours)}}})
	if err != nil {
		return nil, fmt.Errorf("making a cache of Services: %w", err)
	}
	return c, nil
}

// onLeader starts a cache only in the replica that works.
type onLeader struct{ cache.Cache }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (onLeader) NeedLeaderElection() bool { return true }

func namespaceMeta() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

// later asks for the namespace that an object is of, a moment after each change.
func later[T client.Object](of func(client.Object) string) handler.TypedEventHandler[T, reconcile.Request] {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(q queue, object client.Object) {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: of(object)}}, settle)
	}
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q queue) { add(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) { add(q, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q queue) { add(q, e.Object) },
	}
}

func differ(a, b client.Object, keys ...string) bool {
	for _, key := range keys {
		was, had := a.GetAnnotations()[key]
		is, has := b.GetAnnotations()[key]
		if was != is || had != has {
			return true
		}
	}
	return a.GetUID() != b.GetUID()
}

// podChanged drops the updates of a pod that change nothing here: most are of its status.
var podChanged = predicate.TypedFuncs[*corev1.Pod]{
	UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Pod]) bool {
		return differ(e.ObjectOld, e.ObjectNew, api.AnnotationExpose, api.AnnotationPublicAddress)
	},
}

var namespaceChanged = predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
	UpdateFunc: func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
		return differ(e.ObjectOld, e.ObjectNew, api.AnnotationExpose) || e.ObjectOld.Labels[api.LabelInject] != e.ObjectNew.Labels[api.LabelInject]
	},
}

var setChanged = predicate.TypedFuncs[*appsv1.StatefulSet]{
	UpdateFunc: func(e event.TypedUpdateEvent[*appsv1.StatefulSet]) bool {
		return e.ObjectOld.UID != e.ObjectNew.UID || e.ObjectOld.Generation != e.ObjectNew.Generation
	},
}
