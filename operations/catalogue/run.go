package catalogue

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/objects"
	"github.com/stategraft/stategraft/operations/scope"
	"github.com/stategraft/stategraft/operations/telling"
	"github.com/stategraft/stategraft/workload"
)

const (
	workers = 8
	// settle is how long after an event a namespace is looked at: what comes with it is
	// looked at with it.
	settle = 10 * time.Second
)

// teller writes events. The recorder only queues: nothing waits for the API server.
func teller(recorder events.EventRecorder) func(*api.Backup, string, string) {
	return func(b *api.Backup, reason, note string) {
		about := corev1.ObjectReference{APIVersion: api.GroupVersion.String(), Kind: "Backup", Namespace: b.Namespace, Name: b.Name, UID: b.UID, ResourceVersion: b.ResourceVersion}
		recorder.Eventf(&about, nil, corev1.EventTypeWarning, reason, telling.Action("Look", note), "%s", workload.Clip(note, mostText))
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func requestOf(namespace string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: namespace}}
}

// runners are the controller, and an informer of the ConfigMaps of that one name, to
// which the right to watch them can be bound.
func (c *Catalogue) runners(ctx context.Context, mgr manager.Manager, cached cache.Cache) ([]objects.Runner, error) {
	if err := cached.IndexField(ctx, &api.Backup{}, prefixIndex, prefixesOf); err != nil {
		return nil, fmt.Errorf("indexing Backups by prefix: %w", err)
	}
	configMaps, err := cache.New(mgr.GetConfig(), cache.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Field: fields.OneTermEqualSelector("metadata.name", api.ConfigMapCatalogue)}}})
	if err != nil {
		return nil, fmt.Errorf("watching the ConfigMaps of the catalogue: %w", err)
	}
	c.world.Store(&world{backups: cached, configMaps: configMaps, namespaces: mgr.GetCache(), slim: mgr.GetCache(), live: mgr.GetAPIReader(), writer: mgr.GetClient(),
		tell: teller(mgr.GetEventRecorder("stategraft-controller"))})
	controller, err := objects.NewController("catalogue", workers, c.log, c)
	if err != nil {
		return nil, err
	}
	about := &metav1.PartialObjectMetadata{}
	about.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	for _, s := range []source.Source{
		source.Kind(cached, &api.Backup{}, c.ofBackups()),
		source.Kind(configMaps, &corev1.ConfigMap{}, ofConfigMaps()),
		source.Kind(mgr.GetCache(), about, c.ofNamespaces()),
		source.Kind(mgr.GetCache(), &corev1.Pod{}, c.ofPods()),
	} {
		if err := controller.Watch(s); err != nil {
			return nil, fmt.Errorf("watching for the catalogue: %w", err)
		}
	}
	return []objects.Runner{configMaps, controller}, nil
}

// ofBackups looks again when a Backup has ended, has gone, or was made by somebody who
// says that it is in the storage.
func (c *Catalogue) ofBackups() handler.TypedEventHandler[*api.Backup, reconcile.Request] {
	return handler.TypedFuncs[*api.Backup, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*api.Backup], q queue) {
			if e.Object.Found() && e.Object.Status.Phase == "" && !c.made(whereOf(e.Object)) {
				q.AddAfter(requestOf(e.Object.Namespace), time.Second)
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*api.Backup], q queue) {
			if !e.ObjectNew.Found() && e.ObjectNew.Status.Phase.Final() && !e.ObjectOld.Status.Phase.Final() {
				q.AddAfter(requestOf(e.ObjectNew.Namespace), settle)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*api.Backup], q queue) {
			c.deleted(e.Object)
			q.AddAfter(requestOf(e.Object.Namespace), settle)
		},
	}
}

// ofConfigMaps looks when that is asked for, and makes one anew that was deleted.
func ofConfigMaps() handler.TypedEventHandler[*corev1.ConfigMap, reconcile.Request] {
	ask := func(cm *corev1.ConfigMap, q queue) {
		if want := cm.Annotations[api.AnnotationSync]; want != "" && want != cm.Annotations[api.AnnotationSynced] {
			q.Add(requestOf(cm.Namespace))
		}
	}
	return handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.ConfigMap], q queue) { ask(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.ConfigMap], q queue) { ask(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.ConfigMap], q queue) {
			q.AddAfter(requestOf(e.Object.Namespace), time.Second)
		},
	}
}

// ofNamespaces looks at those that carry the label, and forgets those that do not any
// more.
func (c *Catalogue) ofNamespaces() handler.TypedEventHandler[*metav1.PartialObjectMetadata, reconcile.Request] {
	asks := func(o *metav1.PartialObjectMetadata) bool { return scope.Asks(o, c.own) && o.DeletionTimestamp == nil }
	return handler.TypedFuncs[*metav1.PartialObjectMetadata, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*metav1.PartialObjectMetadata], q queue) {
			if asks(e.Object) {
				q.Add(requestOf(e.Object.Name))
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*metav1.PartialObjectMetadata], q queue) {
			if asks(e.ObjectOld) != asks(e.ObjectNew) {
				q.Add(requestOf(e.ObjectNew.Name))
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*metav1.PartialObjectMetadata], q queue) {
			q.Add(requestOf(e.Object.Name))
		},
	}
}

// ofPods looks when the first pod of an owner runs: after the loss of everything, the
// backups of a cluster are there again soon after its first pod is.
func (c *Catalogue) ofPods() handler.TypedEventHandler[*corev1.Pod, reconcile.Request] {
	see := func(pod *corev1.Pod, q queue) {
		if speaks(pod) && !c.knows(pod.Namespace, ownerOf(pod)) {
			q.AddAfter(requestOf(pod.Namespace), settle)
		}
	}
	return handler.TypedFuncs[*corev1.Pod, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Pod], q queue) { see(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Pod], q queue) { see(e.ObjectNew, q) },
	}
}
