package backup

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/claims"
)

const (
	workers = 32
	// removers is how many of the workers may delete data, which takes up to a quarter
	// of an hour.
	removers = 8
	// writeEvery is how often the status of a Backup is written at the most.
	writeEvery = 2 * time.Second
	// againSoon is after a conflict, or a turn that is another's; againLate is how long
	// what waits is left alone at the most: less than claims.AskAgain.
	againSoon = 2 * time.Second
	againLate = 30 * time.Second
)

// reconciler takes Backups a step further.
type reconciler struct {
	cluster  cluster
	ask      asker
	turns    Turns
	remover  Remover
	tell     teller
	clock    func() time.Time
	log      logr.Logger
	book     *book
	limit    time.Duration // see Options.AbsentLimit
	removing chan struct{}
	blaming  chan struct{}               // see blamers
	each     func(n int, do func(i int)) // together
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	b, err := r.cluster.backup(ctx, request.NamespacedName)
	if apierrors.IsNotFound(err) {
		r.gone(request.NamespacedName)
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading Backup %s: %w", request.NamespacedName, err)
	}
	n := r.book.of(request.NamespacedName, b.UID)
	b = n.newest(b)
	if wait := n.wait(b, r.clock()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	after, err := r.step(ctx, b, n)
	if err != nil && (apierrors.IsConflict(err) || apierrors.IsNotFound(err)) {
		n.latest = nil // somebody was faster: the informer tells of it
		return reconcile.Result{RequeueAfter: againSoon}, nil
	}
	if err == nil && after == 0 && n.latest == nil && stageOf(b) == stageOver {
		r.book.forget(request.NamespacedName) // there may be thousands
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// gone forgets a Backup that is not there any more.
func (r *reconciler) gone(at types.NamespacedName) {
	if n := r.book.find(at); n != nil && n.asked {
		r.turns.Release(n.cluster, n.uid)
	}
	r.book.forget(at)
}

// wait is how long a Backup is still to be left alone: it was written a moment ago, or
// waits and nobody has changed what it asks for.
func (n *notes) wait(b *api.Backup, now time.Time) time.Duration {
	if is := (state{b.Generation, b.DeletionTimestamp != nil}); n.judged != is {
		n.judged, n.again, n.pause = is, time.Time{}, 0
		return 0
	}
	return max(n.again.Sub(now), n.wrote.Add(writeEvery).Sub(now))
}

// step reads what the stage asks for, and does what comes next.
func (r *reconciler) step(ctx context.Context, b *api.Backup, n *notes) (time.Duration, error) {
	switch stageOf(b) {
	case stageAccept:
		return r.accept(ctx, b, n)
	case stageRun:
		w, err := r.world(ctx, b, n)
		if err != nil {
			return 0, err
		}
		return r.do(ctx, b, n, next(b, w, r.clock()))
	case stageDelete:
		return r.remove(ctx, b, n)
	}
	r.release(b, n) // another process may have ended it, that led before
	return r.do(ctx, b, n, next(b, world{}, r.clock()))
}

// accept judges a Backup, and takes its turn before that is written down.
func (r *reconciler) accept(ctx context.Context, b *api.Backup, n *notes) (time.Duration, error) {
	now := r.clock()
	w := world{limit: r.limit}
	if !b.Spec.Suspend && !b.Spec.Cancel && now.Before(deadline(b, &b.Status)) {
		v, err := r.verdict(ctx, b, n)
		if err != nil {
			return 0, err
		}
		w.verdict = v
	} else {
		r.release(b, n) // what was not written down in its turn is not begun
	}
	s := next(b, w, now)
	after, err := r.do(ctx, b, n, s)
	if err == nil && stageOf(b) == stageAccept {
		after = n.postpone(deadline(b, &b.Status), now)
	}
	return after, err
}

// postpone leaves one that waits alone for longer each time.
func (n *notes) postpone(end, now time.Time) time.Duration {
	n.pause = min(max(2*n.pause, againSoon), againLate)
	after := min(n.pause, max(end.Sub(now), time.Millisecond))
	n.again = now.Add(after)
	return after
}

// verdict judges a Backup by the API server, its pods, and whose turn it is.
func (r *reconciler) verdict(ctx context.Context, b *api.Backup, n *notes) (*verdict, error) {
	if n.asked { // known to wait for others: nothing has to be read for that
		if p, err := r.take(ctx, b, n, n.cluster); p != nil || err != nil {
			return &verdict{problem: p}, err
		}
	}
	v, err := r.judged(ctx, b, n)
	if n.turn && (err != nil || v.problem != nil) {
		r.release(b, n) // others need not wait for what this one waits for
	}
	return v, err
}

// judged reads and asks all that it takes.
func (r *reconciler) judged(ctx context.Context, b *api.Backup, n *notes) (*verdict, error) {
	f, err := r.facts(ctx, b)
	if err != nil {
		return nil, err
	}
	ask, p := choose(f)
	if p != nil {
		return &verdict{problem: p}, nil
	}
	f.Reports, f.Silent = r.reports(ctx, ask)
	v := judge(f)
	for _, pod := range ask {
		n.pod(pod.Name).keep(pod, r.clock())
	}
	if v.problem != nil || b.Spec.DryRun {
		return v, nil
	}
	v.problem, err = r.take(ctx, b, n, claims.Cluster{Prefix: v.prefix, Namespace: b.Namespace})
	return v, err
}

// take asks for the turn at a cluster's storage.
func (r *reconciler) take(ctx context.Context, b *api.Backup, n *notes, of claims.Cluster) (*Problem, error) {
	if n.asked && n.cluster != of {
		r.turns.Release(n.cluster, b.UID)
	}
	n.asked, n.cluster = true, of
	err := r.turns.Take(ctx, of, claims.Backup, types.NamespacedName{Namespace: b.Namespace, Name: b.Name}, b.UID)
	if busy, ok := claims.IsBusy(err); ok {
		n.turn = false
		return &Problem{Reason: ReasonBusy, Wait: true, Message: "waits: " + busy.Error()}, nil
	} else if err != nil {
		return nil, fmt.Errorf("asking whose turn it is: %w", err)
	}
	n.turn = true
	return nil, nil
}
