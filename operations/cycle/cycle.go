// Package cycle looks after pods whose database's ConfigMap (annotation
// stategraft.io/config-map) has changed since they were started: programs like Anna read
// their configuration once. With stategraft.io/on-config-change: restart they are
// re-created one at a time; without it that is only told.
//
//	digest.go     what a ConfigMap says, and what a pod was started with
//	plan.go       which pod goes next, or what is waited for; pure
//	reconcile.go  one namespace after the other
//	effects.go    what is written
//
// What a pod was started with is written on the pod when it is first seen running, so that
// it outlives the controller. ConfigMaps are read by name, now and then, and not watched: the
// kubelet itself takes up to a minute to bring a change into the pod, and of the
// ConfigMaps of a cluster only these few are any business of ours.
//
// Pods are evicted, not deleted: the API server holds that against PodDisruptionBudgets.
package cycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/objects"
	"github.com/stategraft/stategraft/patches"
)

const (
	// DefaultEvery is how often ConfigMaps are looked at.
	DefaultEvery = 30 * time.Second
	// DefaultSettle is how long all pods of a workload have to be Ready before the next
	// one goes. Anna hands keys over for some time after a node has joined.
	DefaultSettle = 30 * time.Second
	// workers are how many namespaces are looked at at a time.
	workers = 2
)

// Options say how changes are followed.
type Options struct {
	Namespace string           // Stategraft's own
	Every     time.Duration    // 0 for DefaultEvery
	Settle    time.Duration    // 0 for DefaultSettle
	Clock     func() time.Time // nil for time.Now
}

// Add adds the controller to a manager whose cache has the injected pods and the
// StatefulSets as heal.ByObject restricts them. It runs on the leader.
func Add(mgr manager.Manager, o Options) error {
	if o.Namespace == "" {
		return errors.New("following changes of ConfigMaps needs to know Stategraft's own namespace")
	}
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	if o.Settle <= 0 {
		o.Settle = DefaultSettle
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	r := &reconciler{cached: mgr.GetCache(), live: mgr.GetAPIReader(), options: o, memory: newMemory(),
		write: &writer{client: mgr.GetClient(), events: mgr.GetEventRecorder("stategraft-controller")}}
	c, err := objects.NewController("cycle", workers, mgr.GetLogger().WithName("cycle"), r)
	if err != nil {
		return err
	}
	for _, s := range []source.Source{
		source.Kind(mgr.GetCache(), &corev1.Pod{}, of[*corev1.Pod](client.Object.GetNamespace), podChanged),
		source.Kind(mgr.GetCache(), namespaceMeta(), of[*metav1.PartialObjectMetadata](client.Object.GetName), namespaceChanged),
	} {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watching for pods with a ConfigMap: %w", err)
		}
	}
	if err := mgr.Add(c); err != nil {
		return fmt.Errorf("adding to the manager: %w", err)
	}
	return nil
}

func namespaceMeta() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

func of[T client.Object](name func(client.Object) string) handler.TypedEventHandler[T, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, object T) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name(object)}}}
	})
}

// podChanged lets through what matters of pods with a ConfigMap: that they come and go,
// whether they are Ready, what is written on them.
var podChanged = predicate.TypedFuncs[*corev1.Pod]{
	CreateFunc: func(e event.TypedCreateEvent[*corev1.Pod]) bool { return configMapOf(e.Object) != "" },
	DeleteFunc: func(e event.TypedDeleteEvent[*corev1.Pod]) bool { return configMapOf(e.Object) != "" },
	UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Pod]) bool {
		was, is := e.ObjectOld, e.ObjectNew
		return configMapOf(is) != "" && (was.UID != is.UID || ready(was) != ready(is) || was.Status.Phase != is.Status.Phase ||
			was.Annotations[api.AnnotationOnConfigChange] != is.Annotations[api.AnnotationOnConfigChange] ||
			was.Annotations[patches.AnnotationConfigStarted] != is.Annotations[patches.AnnotationConfigStarted])
	},
}

var namespaceChanged = predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
	UpdateFunc: func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
		was, is := e.ObjectOld, e.ObjectNew
		return was.Annotations[api.AnnotationOnConfigChange] != is.Annotations[api.AnnotationOnConfigChange] || was.Labels[api.LabelRestoring] != is.Labels[api.LabelRestoring] ||
			was.Labels[api.LabelInject] != is.Labels[api.LabelInject]
	},
}
