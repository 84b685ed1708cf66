package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// How many Restores are worked on at a time, how many of these may ask the storage,
// which takes long, and how long that may take.
const (
	workers      = 16
	checkers     = 8
	storageLimit = 3 * time.Minute
)

// reconciler takes Restores a step further. What it keeps in memory is about how
// often, never about what: that is in the object.
type reconciler struct {
	cluster  cluster
	nodes    Nodes
	replays  Replayer // nil for none
	lookups  Lookuper // nil for none
	planner  planner
	tell     teller
	clock    func() time.Time
	log      logr.Logger
	index    *index
	throttle *throttle

	// beginning is held from reading the other Restores of a namespace to writing that
	// this one has their pods, so that no two have the same; and from reading that none
	// is under way to taking the namespace's label off.
	beginning sync.Mutex
	checking  chan struct{}
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	restore, err := r.cluster.restore(ctx, request.NamespacedName)
	if apierrors.IsNotFound(err) {
		r.index.forget(request.NamespacedName)
		r.throttle.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading Restore %s: %w", request.NamespacedName, err)
	}
	r.index.set(request.NamespacedName, watched(restore))
	if wait := r.throttle.wait(restore, r.clock()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if wait := r.throttle.look(restore, r.clock()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	result, err := r.step(ctx, restore)
	if err != nil && outdated(err) {
		return reconcile.Result{RequeueAfter: quickPause}, nil
	}
	return result, err
}

// outdated tells of an error whether somebody was faster, so that it has to be looked
// at again.
func outdated(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

// watched are the pods that a Restore is about, as far as they are known.
func watched(r *api.Restore) []string {
	if stageOf(r) == stageOver {
		return nil
	}
	return slices.Concat(podNames(r), r.Spec.Pods.Names)
}

// step takes a Restore a step further, and takes the label off its namespace where that
// was the last.
func (r *reconciler) step(ctx context.Context, restore *api.Restore) (reconcile.Result, error) {
	before := held(restore)
	result, err := r.stage(ctx, restore)
	if before && !held(restore) {
		if err := r.unmark(ctx, restore.Namespace); err != nil && !outdated(err) && ctx.Err() == nil {
			r.log.Error(err, "a label that is not needed any more stays for now", "namespace", restore.Namespace) // keepMarks takes it off
		}
	}
	return result, err
}

// stage reads what the stage asks for, and does what comes next.
func (r *reconciler) stage(ctx context.Context, restore *api.Restore) (reconcile.Result, error) {
	switch stageOf(restore) {
	case stageAccept:
		return r.accept(ctx, restore)
	case stageCheck:
		return r.check(ctx, restore)
	case stageRun, stageCancel:
		w, err := r.world(ctx, restore)
		if err != nil {
			return reconcile.Result{}, err
		}
		return r.do(ctx, restore, next(restore, w, r.clock()))
	}
	return r.do(ctx, restore, next(restore, world{}, r.clock()))
}

func (r *reconciler) accept(ctx context.Context, restore *api.Restore) (reconcile.Result, error) {
	r.beginning.Lock()
	defer r.beginning.Unlock()
	var v *verdict
	if !restore.Spec.Suspend {
		f, err := r.facts(ctx, restore)
		if err != nil {
			return reconcile.Result{}, err
		}
		v = &verdict{}
		v.names, v.problem = r.planner.accept(f)
	}
	return r.do(ctx, restore, next(restore, world{verdict: v}, r.clock()))
}

func (r *reconciler) check(ctx context.Context, restore *api.Restore) (reconcile.Result, error) {
	if restore.Spec.Suspend || r.clock().After(deadline(restore)) {
		return r.do(ctx, restore, next(restore, world{}, r.clock()))
	}
	select {
	case r.checking <- struct{}{}:
		defer func() { <-r.checking }()
	default: // others ask the storage; those that restore must not wait for them
		return reconcile.Result{RequeueAfter: slowPause}, nil
	}
	v, err := r.precheck(ctx, restore)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.beginning.Lock()
	defer r.beginning.Unlock()
	if v.problem == nil && !restore.Spec.DryRun {
		others, err := r.cluster.restores(ctx, restore.Namespace)
		if err != nil {
			return reconcile.Result{}, err
		}
		v.problem = overlap(restore, others)
	}
	return r.do(ctx, restore, next(restore, world{verdict: v}, r.clock()))
}

// overlap tells which other Restore has begun with a pod of this one meanwhile.
func overlap(r *api.Restore, others []api.Restore) *Problem {
	for i := range others {
		if others[i].Name == r.Name {
			continue
		}
		for _, name := range others[i].Status.Pending {
			if r.Status.Pod(name) != nil {
				return &Problem{Reason: ReasonBusy, Wait: true, Message: fmt.Sprintf("waits for restore %s, which is at work on %s", others[i].Name, name)}
			}
		}
	}
	return nil
}

// do does a step, in the order that step says.
func (r *reconciler) do(ctx context.Context, restore *api.Restore, s step) (reconcile.Result, error) {
	if s.hold {
		if !held(restore) {
			if err := r.cluster.writeFinalizer(ctx, restore, true); err != nil {
				return reconcile.Result{}, err
			}
		}
		if err := r.mark(ctx, restore); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := r.write(ctx, restore, &s); err != nil {
		return reconcile.Result{}, err
	}
	for _, say := range s.say {
		tellAbout(r.tell, restore, say.pod, say.kind, say.reason, say.message)
	}
	for outcome, n := range s.counted {
		podsTotal.WithLabelValues(outcome).Add(float64(n))
	}
	if err := r.touch(ctx, restore, &s); err != nil {
		return reconcile.Result{}, err
	}
	if s.forgotten && r.lookups != nil {
		if err := r.lookups.Remove(ctx, restore); err != nil {
			return reconcile.Result{}, fmt.Errorf("removing the pod that looked into the storage: %w", err)
		}
	}
	if s.free && held(restore) {
		if err := r.cluster.writeFinalizer(ctx, restore, false); err != nil {
			return reconcile.Result{}, err
		}
	}
	r.throttle.set(restore, s.after, r.clock())
	return reconcile.Result{RequeueAfter: s.after}, nil
}

// write writes the status where it changes; where only figures do, not each time.
func (r *reconciler) write(ctx context.Context, restore *api.Restore, s *step) error {
	if !s.changes(restore) {
		return nil
	}
	if onlyProgress(&restore.Status, &s.status) && !r.throttle.due(restore.UID, r.clock()) {
		return nil
	}
	completed := s.status.Phase == api.RestoreCompleted && restore.Status.Phase != api.RestoreCompleted
	phase := restore.Status.Phase
	restore.Status = s.status
	if err := r.cluster.writeStatus(ctx, restore); err != nil {
		return err
	}
	r.throttle.written(restore.UID, r.clock())
	if phase != s.status.Phase {
		r.log.Info("restore", "namespace", restore.Namespace, "name", restore.Name, "phase", s.status.Phase, "message", s.status.Message)
	}
	if completed && s.status.Started != nil {
		seconds.Observe(r.clock().Sub(s.status.Started.Time).Seconds())
	}
	return nil
}

// touch deletes pods and lifts gates. A pod that has changed or gone meanwhile is
// looked at again; the others do not wait for it.
func (r *reconciler) touch(ctx context.Context, restore *api.Restore, s *step) error {
	var failures []error
	for _, rm := range s.remove {
		tellAbout(r.tell, restore, rm.pod, rm.kind, rm.reason, rm.message)
		r.log.Info("deleting a pod", "namespace", rm.pod.Namespace, "pod", rm.pod.Name, "uid", rm.pod.UID, "restore", restore.Name, "reason", rm.reason)
		if err := r.cluster.remove(ctx, rm.pod); err != nil && !outdated(err) {
			failures = append(failures, err)
		}
	}
	for _, pod := range s.lift {
		if err := r.cluster.lift(ctx, pod); err != nil && !outdated(err) {
			failures = append(failures, err)
		}
	}
	r.askToReplay(ctx, restore, s.replay)
	return errors.Join(failures...)
}

// index finds the Restores that are about a pod.
type index struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]map[types.NamespacedName]bool // of Restores, by pod
	of   map[types.NamespacedName][]types.NamespacedName        // the pods, by Restore
}

func newIndex() *index {
	return &index{pods: map[types.NamespacedName]map[types.NamespacedName]bool{}, of: map[types.NamespacedName][]types.NamespacedName{}}
}

func (x *index) set(restore types.NamespacedName, pods []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(restore)
	for _, name := range pods {
		pod := types.NamespacedName{Namespace: restore.Namespace, Name: name}
		if x.pods[pod] == nil {
			x.pods[pod] = map[types.NamespacedName]bool{}
		}
		x.pods[pod][restore] = true
		x.of[restore] = append(x.of[restore], pod)
	}
}

func (x *index) forget(restore types.NamespacedName) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(restore)
}

func (x *index) drop(restore types.NamespacedName) {
	for _, pod := range x.of[restore] {
		if delete(x.pods[pod], restore); len(x.pods[pod]) == 0 {
			delete(x.pods, pod)
		}
	}
	delete(x.of, restore)
}

func (x *index) find(pod types.NamespacedName) (requests []reconcile.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for restore := range x.pods[pod] {
		requests = append(requests, reconcile.Request{NamespacedName: restore})
	}
	return requests
}
