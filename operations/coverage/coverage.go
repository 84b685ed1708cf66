// Package coverage finds the pods that ought to have our containers and have
// none, and says why: skipped with a reason, created before the namespace was
// labelled, or while the webhook did not answer. It is the only one that can tell
// of the last, as nobody was asked about such a pod.
//
//	judge.go      what is missing and why, of one pod; pure
//	begun.go      what an adoption that has begun waits for
//	since.go      since when a namespace is labelled
//	quota.go      quotas as they were before the pod
//	coverage.go   Options, Add
//	watch.go      what is watched, and how little of it is kept
//	reconcile.go  one pod after the other
//	asked.go      pods that ask for a restore, for others to answer
//	uncovered.go  the pods that were found, for others to read
//	state.go      what came out
//	metrics.go    the gauges made of it
//
// It imports webhook for its decision, which is pure, so that this package and
// admission never disagree.
package coverage

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
)

// Options say by what pods are judged. They have to be what the webhook has, or
// the reasons are not those of admission.
type Options struct {
	// Namespace is that of Stategraft, which is left alone whatever its label says.
	Namespace string
	// Config is the webhook's configuration; nil for the defaults.
	Config func() *webhook.Config
	// NativeSidecars tells whether the cluster has them; nil for yes.
	NativeSidecars func() bool
	// HeldBack finds the workloads that are held back; nil for none.
	HeldBack func(namespace, kind, name string) (api.HeldBack, bool)
	// WebhookConfiguration is the name of the MutatingWebhookConfiguration; empty
	// for stategraft.
	WebhookConfiguration string
	// Injected is an informer of the pods that carry api.LabelInjected, of all
	// namespaces, so that they are not held twice; nil for one of our own.
	Injected cache.Informer
	// RestoreAsked is told of pods without our containers that ask for a restore by
	// their annotation, in any namespace, when they are first seen and when the
	// annotation changes. It must not wait; nil for nobody.
	RestoreAsked func(pod *metav1.PartialObjectMetadata)

	settle time.Duration // in a test; 0 for settleAfter
}

// settleAfter is how old a pod has to be to be judged: by then the informers have
// what admission went by, the use of quotas above all, and API servers know of a
// label that was set just before.
const settleAfter = 10 * time.Second

// The reads of pods, one for each that has no sidecar in a labelled namespace,
// per second and at once.
const (
	readsPerSecond = 20
	readsAtOnce    = 40
)

// Add adds the controller to the manager, which runs it on the leader. It may be
// added once in a process.
func Add(mgr manager.Manager, o Options) error {
	if o.Config == nil {
		defaults := webhook.DefaultConfig()
		o.Config = func() *webhook.Config { return defaults }
	}
	if o.NativeSidecars == nil {
		o.NativeSidecars = func() bool { return true }
	}
	if o.WebhookConfiguration == "" {
		o.WebhookConfiguration = "stategraft"
	}
	if o.settle == 0 {
		o.settle = settleAfter
	}
	c, err := newCache(mgr, o.WebhookConfiguration)
	if err != nil {
		return err
	}
	r, err := newReconciler(mgr, c, o)
	if err != nil {
		return err
	}
	if o.Injected == nil {
		if o.Injected, err = injectedInformer(mgr); err != nil {
			return err
		}
	}
	if err := countInjected(o.Injected, r.state); err != nil {
		return err
	}
	if err := r.watch(mgr, c); err != nil {
		return err
	}
	if err := tellAsked(c, o.RestoreAsked); err != nil {
		return err
	}
	leading := func(ctx context.Context) error { // run once this replica leads
		r.state.lead()
		<-ctx.Done()
		return nil
	}
	for _, runnable := range []manager.Runnable{onLeader{c}, manager.RunnableFunc(leading)} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("adding to the manager: %w", err)
		}
	}
	exported.state.Store(r.state)
	return nil
}

func newReconciler(mgr manager.Manager, c cache.Cache, o Options) (*reconciler, error) {
	// The namespaces' quotas and limit ranges, from the same cache. Nothing is
	// waited for here.
	namespaces, err := webhook.WatchNamespaces(context.Background(), c)
	if err != nil {
		return nil, err
	}
	if _, err := c.GetInformer(context.Background(), metadata("MutatingWebhookConfiguration"), cache.BlockUntilSynced(false)); err != nil {
		return nil, fmt.Errorf("watching the webhook configuration: %w", err)
	}
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS, config.Burst, config.RateLimiter = readsPerSecond, readsAtOnce, nil
	pods, err := corev1client.NewForConfigAndClient(config, mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	get := func(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
		return pods.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	return &reconciler{
		Options: o, reader: c, namespaces: namespaces, get: get, state: newState(),
		events: mgr.GetEventRecorder("stategraft-controller"), started: time.Now(),
	}, nil
}

// watch makes the controller and has it look at pods, and at all pods of a
// namespace that is labelled or not labelled any more.
func (r *reconciler) watch(mgr manager.Manager, from cache.Cache) error {
	c, err := controller.New("coverage", mgr, controller.Options{Reconciler: r, MaxConcurrentReconciles: 2})
	if err != nil {
		return fmt.Errorf("making the controller: %w", err)
	}
	for _, s := range []source.Source{
		source.Kind(from, metadata("Pod"), handler.TypedEnqueueRequestsFromMapFunc(r.ofPod), changed),
		source.Kind(from, metadata("Namespace"), handler.TypedEnqueueRequestsFromMapFunc(r.ofNamespace), comesOrGoes),
	} {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	return nil
}
