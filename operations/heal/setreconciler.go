package heal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// setReconciler finds StatefulSets whose pods are refused and tries whether they
// are created without us.
type setReconciler struct {
	cached client.Reader
	live   client.Reader
	store  *store
	tell   teller
	now    func() time.Time
	after  time.Duration
	log    logr.Logger

	mu   sync.Mutex
	sets map[types.NamespacedName]*watched // those that miss pods
}

// watched is what is remembered of a StatefulSet that misses pods. It is lost with
// the leader: then it takes a deadline longer, or there is one trial more.
type watched struct {
	uid     types.UID
	missing time.Time
	notUs   time.Time     // no trial before; zero if there was none yet
	wait    time.Duration // the time after the next that shows it was not us
}

// Reconcile implements reconcile.Reconciler.
func (r *setReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var set appsv1.StatefulSet
	if err := r.cached.Get(ctx, req.NamespacedName, &set); err != nil {
		r.forget(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	entry, held, err := r.store.find(ctx, set.Namespace, "StatefulSet", set.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if held && entry.Trial != nil {
		return r.try(ctx, &set, entry)
	}
	if !missing(&set) {
		r.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	w := r.remember(&set)
	if held && entry.Active(r.now()) || r.now().Before(w.notUs) {
		return r.again(w.notUs), nil // its pods are admitted as they are, so it is not us; or it was not
	}
	if namespace, err := namespaceOf(ctx, r.cached, set.Namespace); err != nil || namespace.Labels[api.LabelInject] != api.InjectEnabled {
		return r.again(time.Time{}), err
	}
	c, err := r.creation(ctx, &set, w.missing)
	if err != nil {
		return reconcile.Result{}, err
	}
	if yes, at := c.refused(r.now(), r.after); !yes {
		return r.again(at), nil
	}
	return r.begin(ctx, &set, c)
}

// missing tells whether there are fewer pods than are wanted.
func missing(set *appsv1.StatefulSet) bool {
	return set.DeletionTimestamp == nil && set.Status.ObservedGeneration >= set.Generation && wanted(set) > set.Status.Replicas
}

func wanted(set *appsv1.StatefulSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}

// again has the StatefulSet looked at no later than at, and not too often.
func (r *setReconciler) again(at time.Time) reconcile.Result {
	wait := r.after
	if until := at.Sub(r.now()); until > 0 && until < wait {
		wait = until
	}
	return reconcile.Result{RequeueAfter: max(wait, 100*time.Millisecond)}
}

// begin holds the workload back on trial, if its pods would be injected at all.
func (r *setReconciler) begin(ctx context.Context, slim *appsv1.StatefulSet, c creation) (reconcile.Result, error) {
	var set appsv1.StatefulSet
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(slim), &set); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	annotations, err := annotationsOf(ctx, r.cached, set.Namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	injected, err := wouldInject(&set, annotations)
	if err != nil || !injected || !missing(&set) {
		return r.again(time.Time{}), err
	}
	entry := api.HeldBack{Namespace: set.Namespace, Kind: "StatefulSet", Name: set.Name, Cause: api.CauseRefused,
		Message: said("its pods are refused", c.failures.message), Trial: &api.Trial{Created: set.Status.Replicas}}
	if _, err := r.store.hold(ctx, entry, r.now()); err != nil {
		if errors.Is(err, errFull) {
			r.log.Error(err, "a workload is not held back", "namespace", set.Namespace, "kind", "StatefulSet", "name", set.Name, "cause", entry.Cause)
			return reconcile.Result{RequeueAfter: longestPlacing}, nil
		}
		return reconcile.Result{}, err
	}
	r.log.Info("workload held back on trial", "namespace", set.Namespace, "name", set.Name, "message", c.failures.message)
	return r.again(time.Time{}), nil
}

// try looks at how a trial goes.
func (r *setReconciler) try(ctx context.Context, set *appsv1.StatefulSet, entry api.HeldBack) (reconcile.Result, error) {
	c, err := r.creation(ctx, set, entry.Since)
	if err != nil {
		return reconcile.Result{}, err
	}
	about := corev1.ObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: set.Namespace, Name: set.Name, UID: set.UID}
	switch judgeTrial(entry, c, r.now()) {
	case itWasUs:
		if done, err := r.store.confirm(ctx, entry); err != nil || !done {
			return r.again(time.Time{}), err
		}
		healed.WithLabelValues(string(entry.Cause), "").Inc()
		r.log.Info("workload held back: its pods are created without us", "namespace", set.Namespace, "name", set.Name, "message", entry.Message)
		r.tell.warn(about, nil, eventHeldBack, "with Stategraft's containers %s; its pods are admitted without them for now; annotation %s: %s on the pods or their namespace injects them all the same",
			entry.Message, api.AnnotationHeldBack, api.HeldBackIgnore)
		return r.again(time.Time{}), nil
	case notUs:
		if done, err := r.store.release(ctx, entry); err != nil || !done {
			return r.again(time.Time{}), err
		}
		w := r.remember(set)
		w.wait = min(max(2*w.wait, firstHold), longestHold)
		w.notUs = r.now().Add(w.wait)
		r.log.Info("pods of a workload are refused without us too", "namespace", set.Namespace, "name", set.Name, "message", c.failures.message, "notTriedBefore", w.notUs)
	}
	return r.again(time.Time{}), nil
}

// creation reads the events about the creation of pods.
func (r *setReconciler) creation(ctx context.Context, set *appsv1.StatefulSet, since time.Time) (creation, error) {
	c := creation{wanted: wanted(set), created: set.Status.Replicas, missing: since}
	var err error
	if c.failures, err = eventsAbout(ctx, r.live, set.Namespace, set.UID, "FailedCreate"); err != nil {
		return c, err
	}
	c.successes, err = eventsAbout(ctx, r.live, set.Namespace, set.UID, "SuccessfulCreate")
	return c, err
}

// remember answers what is known of a StatefulSet, from now on if nothing is. Its
// pointer is used by one reconciliation at a time.
func (r *setReconciler) remember(set *appsv1.StatefulSet) *watched {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(set)
	if w := r.sets[key]; w != nil && w.uid == set.UID {
		return w
	}
	w := &watched{uid: set.UID, missing: r.now()}
	r.sets[key] = w
	return w
}

func (r *setReconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sets, key)
}
