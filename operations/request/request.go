// Package request makes Restores out of annotations on live pods. A StatefulSet
// makes its pods anew without what was written on them, so the annotation alone
// would be forgotten with the pod that it is about: the Restore outlives it.
//
//	judge.go      what a pod asks for, and why it is refused; pure
//	compose.go    the Restore that several pods ask for; pure
//	reconcile.go  the pods of one owner
//	make.go       the Restore that is made once they have settled
//	follow.go     what came of the Restores that were made
//	effects.go    what is written: Restores, answers on pods, events
//	inbox.go      pods that ask and have no sidecar, of which coverage tells
//
// Each pod is answered at once by an event, and by an annotation that says for which
// value: while it is there the pod is not asked about again.
package request

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// DefaultSettle is how long after the last pod of a workload was annotated one
// Restore is made for all: `kubectl annotate pod -l …` writes one after the other.
const DefaultSettle = 3 * time.Second

// Options say how requests are taken.
type Options struct {
	Namespace string           // Stategraft's own
	Settle    time.Duration    // 0 for DefaultSettle
	Clock     func() time.Time // nil for time.Now
	// Inbox has the pods without a sidecar that ask; nil for none.
	Inbox *Inbox
}

// Add adds the controller to a manager whose cache has the injected pods, as
// heal.ByObject restricts it. It runs on the leader only.
func Add(mgr manager.Manager, o Options) error {
	if o.Namespace == "" {
		return errors.New("taking requests needs to know Stategraft's own namespace")
	}
	if o.Settle <= 0 {
		o.Settle = DefaultSettle
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if err := api.AddToScheme(mgr.GetScheme()); err != nil {
		return fmt.Errorf("adding the objects to the scheme: %w", err)
	}
	w := &writer{client: mgr.GetClient(), events: mgr.GetEventRecorder("stategraft-controller")}
	r := &reconciler{cached: mgr.GetClient(), live: mgr.GetAPIReader(), write: w, now: o.Clock, settle: o.Settle,
		log: mgr.GetLogger().WithName("request"), groups: map[types.NamespacedName]group{}}
	err := builder.ControllerManagedBy(mgr).Named("restore-request").
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, pod client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: groupOf(pod)}}
		}), builder.WithPredicates(concerns)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller of requests: %w", err)
	}
	if o.Inbox == nil {
		return nil
	}
	o.Inbox.live, o.Inbox.write, o.Inbox.own, o.Inbox.log = mgr.GetAPIReader(), w, o.Namespace, r.log
	if err := mgr.Add(o.Inbox); err != nil {
		return fmt.Errorf("adding the inbox to the manager: %w", err)
	}
	return nil
}

// concerns lets through the pods that ask or were answered, when that changes.
// Most updates are of the status.
var concerns = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return involved(e.Object) },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld, e.ObjectNew
		if !involved(before) && !involved(after) {
			return false
		}
		for _, key := range []string{api.AnnotationRestore, api.AnnotationRestoreSource, api.AnnotationRestoreAnswer} {
			was, had := before.GetAnnotations()[key]
			is, has := after.GetAnnotations()[key]
			if was != is || had != has {
				return true
			}
		}
		return before.GetUID() != after.GetUID()
	},
	DeleteFunc:  func(e event.DeleteEvent) bool { return involved(e.Object) }, // what was remembered of it is dropped
	GenericFunc: func(event.GenericEvent) bool { return false },
}

func involved(pod client.Object) bool {
	_, asks := pod.GetAnnotations()[api.AnnotationRestore]
	_, answered := pod.GetAnnotations()[api.AnnotationRestoreAnswer]
	return asks || answered
}
