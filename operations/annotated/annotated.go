package annotated

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/objects"
)

// DefaultSettle is how long after a change a namespace is looked at: `kubectl annotate
// pod -l …` writes one pod after the other, and an API server tells of what was just
// written a little later.
const DefaultSettle = 3 * time.Second

// workers are how many namespaces are looked at at a time.
const workers = 4

// Nodes asks pods what they know (operations/sidecar).
type Nodes interface {
	Report(ctx context.Context, pod *corev1.Pod) (node.Report, error)
}

// Options say how annotations are followed.
type Options struct {
	Namespace string // Stategraft's own
	// Nodes tells which workloads are one cluster; nil to take each for one.
	Nodes  Nodes
	Settle time.Duration    // 0 for DefaultSettle
	Clock  func() time.Time // nil for time.Now
}

// Add adds the controller to a Group, of a manager whose cache has the injected pods as
// heal.ByObject restricts it.
func Add(g *objects.Group, o Options) error {
	if o.Namespace == "" {
		return errors.New("making BackupSchedules of annotations needs to know Stategraft's own namespace")
	}
	if o.Settle <= 0 {
		o.Settle = DefaultSettle
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	mgr := g.Manager
	log := mgr.GetLogger().WithName("annotated")
	g.Add(func(_ context.Context, cached cache.Cache) ([]objects.Runner, error) {
		r := &reconciler{objects: cached, cached: mgr.GetCache(), live: mgr.GetAPIReader(), nodes: o.Nodes, own: o.Namespace, now: o.Clock, memory: newMemory(),
			write: &writer{client: mgr.GetClient(), events: mgr.GetEventRecorder("stategraft-controller")}}
		c, err := objects.NewController("backup-annotated", workers, log, r)
		if err != nil {
			return nil, err
		}
		for _, s := range []source.Source{
			source.Kind(mgr.GetCache(), &corev1.Pod{}, later[*corev1.Pod](o.Settle, client.Object.GetNamespace, r.memory.see), says),
			source.Kind(mgr.GetCache(), namespaceMeta(), later[*metav1.PartialObjectMetadata](o.Settle, client.Object.GetName, r.memory.see), asks),
			source.Kind(cached, &api.BackupSchedule{}, later[*api.BackupSchedule](o.Settle, client.Object.GetNamespace, nil), altered),
		} {
			if err := c.Watch(s); err != nil {
				return nil, fmt.Errorf("watching for annotations: %w", err)
			}
		}
		return []objects.Runner{c}, nil
	})
	return nil
}

func namespaceMeta() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

// later asks for the namespace that an object is of, a while after each change. What is
// there for less than that is seen all the same; see may be nil.
func later[T client.Object](settle time.Duration, of func(client.Object) string, see func(client.Object)) handler.TypedEventHandler[T, reconcile.Request] {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(q queue, object client.Object) {
		if see != nil && object.GetDeletionTimestamp() == nil {
			see(object)
		}
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: of(object)}}, settle)
	}
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q queue) { add(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) { add(q, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q queue) { add(q, e.Object) },
	}
}

// read are the annotations that are followed.
var read = []string{api.AnnotationBackupSchedule, api.AnnotationRetain}

func differ(a, b map[string]string) bool {
	for _, key := range read {
		was, had := a[key]
		is, has := b[key]
		if was != is || had != has {
			return true
		}
	}
	return false
}

// says drops the updates of a pod that change nothing here: most are of its status.
var says = predicate.TypedFuncs[*corev1.Pod]{
	UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Pod]) bool {
		return e.ObjectOld.UID != e.ObjectNew.UID || differ(e.ObjectOld.Annotations, e.ObjectNew.Annotations)
	},
}

var asks = predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
	UpdateFunc: func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
		return differ(e.ObjectOld.Annotations, e.ObjectNew.Annotations) || e.ObjectOld.Labels[api.LabelInject] != e.ObjectNew.Labels[api.LabelInject]
	},
}

// altered lets through a BackupSchedule that comes, goes, or of which something else is
// asked, or whose label has changed.
var altered = predicate.TypedFuncs[*api.BackupSchedule]{
	UpdateFunc: func(e event.TypedUpdateEvent[*api.BackupSchedule]) bool {
		return e.ObjectOld.UID != e.ObjectNew.UID || e.ObjectOld.Generation != e.ObjectNew.Generation || isAnnotated(e.ObjectOld) != isAnnotated(e.ObjectNew)
	},
}
