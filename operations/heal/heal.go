// Package heal keeps databases running where something of ours would not let them.
// It is the last line of rule 1: a database never fails to start, and never becomes
// unready, because of its backup.
//
//	judge.go, trouble.go, cure.go, status.go, own.go   what is wrong with a pod, and what is to be done
//	pending.go, room.go, admits.go                     whether a Pending pod would be scheduled without us
//	refusal.go, template.go                            whether pods are refused because of us
//	ledger.go                                          which workloads are held back, and for how long
//	podreconciler.go, replace.go, setreconciler.go     the controllers
//	effects.go, store.go, survey.go, eventlist.go      what they read and write
//	slim.go                                            what they watch
//
// The first four lines are pure. docs/decisions/0007-held-back.md says why it is as
// it is.
package heal

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// DefaultAfter is how long something of ours may keep a pod from being Ready. A
// database that waits for us is worse than one pod without a backup until it is
// next replaced; a pull that takes long is no trouble, only one that fails.
const DefaultAfter = 45 * time.Second

// Options say how to heal.
type Options struct {
	Namespace string           // Stategraft's own
	After     time.Duration    // 0 for DefaultAfter
	Clock     func() time.Time // nil for time.Now
}

// workers are how many pods are worked on at a time. When a registry fails, all
// pods that are re-created need healing at once, and each takes some requests.
const workers = 4

// Add adds the controllers to a manager, whose cache has to be restricted by
// ByObject. They run on the leader only.
func Add(mgr manager.Manager, o Options) error {
	if o.Namespace == "" {
		return errors.New("healing needs to know Stategraft's own namespace")
	}
	if o.After <= 0 {
		o.After = DefaultAfter
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	log := mgr.GetLogger().WithName("heal")
	tell := teller{mgr.GetEventRecorder("stategraft-controller")}
	held := &store{reader: mgr.GetAPIReader(), writer: mgr.GetClient(), namespace: o.Namespace, now: o.Clock, log: log}
	if err := mgr.Add(held); err != nil {
		return fmt.Errorf("adding the held back workloads to the manager: %w", err)
	}
	namespaces := &metav1.PartialObjectMetadata{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if _, err := mgr.GetCache().GetInformer(context.Background(), namespaces, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	injected := predicate.NewPredicateFuncs(func(object client.Object) bool {
		_, ok := object.GetLabels()[api.LabelInjected]
		return ok
	})
	err := builder.ControllerManagedBy(mgr).Named("heal-pods").For(&corev1.Pod{}, builder.WithPredicates(injected)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&podReconciler{cached: mgr.GetClient(), live: mgr.GetAPIReader(), pods: &pods{client: mgr.GetClient(), now: o.Clock}, store: held,
			survey: &survey{reader: mgr.GetAPIReader(), now: o.Clock}, tell: tell, now: o.Clock, after: o.After, log: log})
	if err != nil {
		return fmt.Errorf("adding the controller of pods: %w", err)
	}
	err = builder.ControllerManagedBy(mgr).Named("heal-statefulsets").For(&appsv1.StatefulSet{}).
		Complete(&setReconciler{cached: mgr.GetClient(), live: mgr.GetAPIReader(), store: held, tell: tell, now: o.Clock, after: o.After, log: log,
			sets: map[types.NamespacedName]*watched{}})
	if err != nil {
		return fmt.Errorf("adding the controller of StatefulSets: %w", err)
	}
	return nil
}
