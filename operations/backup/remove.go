package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/claims"
	"github.com/stategraft/stategraft/operations/removal"
)

const (
	// removeLimit is how long one try to delete data may take.
	removeLimit = 20 * time.Minute
	// removeLate is how long a deletion that waits for somebody is left alone.
	removeLate = 5 * time.Minute
	// lasting is how long a sidecar may go on deleting that has not answered, or was asked
	// by a process before this one. The turn is kept for so long: a backup would refer to
	// files that it takes for unneeded (thelastpickle/cassandra-medusa#363).
	lasting = 15 * time.Minute
)

// remove takes a Backup that is being deleted a step further: its data go first, where
// they are to go.
func (r *reconciler) remove(ctx context.Context, b *api.Backup, n *notes) (time.Duration, error) {
	if !held(b) {
		r.release(b, n)
		return 0, nil
	}
	_, terminating, err := r.cluster.namespace(ctx, b.Namespace)
	if err != nil {
		return 0, err
	}
	now := r.clock()
	if !n.began {
		n.began = true
		if reasonOf(&b.Status, api.ConditionDeleted) == reasonDeleting {
			n.lasts = now.Add(lasting)
		}
	}
	if why, warn := release(b, terminating); why != "" {
		if !terminating && now.Before(n.lasts) {
			return r.last(ctx, b, n, "its deletion had begun, and may go on")
		}
		return r.keep(ctx, b, n, why, warn)
	}
	select {
	case r.removing <- struct{}{}:
		defer func() { <-r.removing }()
	default:
		if now.Before(n.lasts) {
			return againSoon * 2, nil
		}
		return againSoon * 2, r.write(ctx, b, n, new(deleting(b, reasonQueued, "waits for other deletions", now)))
	}
	of, _ := claims.Of(b)
	n.asked, n.cluster = true, of
	err = r.turns.Take(ctx, of, claims.Deletion, types.NamespacedName{Namespace: b.Namespace, Name: b.Name}, b.UID)
	if busy, ok := claims.IsBusy(err); ok && now.Before(n.lasts) {
		return r.last(ctx, b, n, "waits: "+busy.Error())
	} else if ok {
		return r.hold(ctx, b, n, reasonBusy, "waits: "+busy.Error(), againLate)
	} else if err != nil {
		return 0, fmt.Errorf("asking whose turn it is: %w", err)
	}
	return r.removeData(ctx, b, n)
}

// removeData deletes the data. That it begins is written before.
func (r *reconciler) removeData(ctx context.Context, b *api.Backup, n *notes) (time.Duration, error) {
	_, name := removal.Stored(b)
	if err := r.write(ctx, b, n, new(deleting(b, reasonDeleting, "deletes "+name+" from the storage", r.clock()))); err != nil {
		return 0, err
	}
	// The informer may lag: somebody may want the data kept since.
	now, err := r.cluster.current(ctx, types.NamespacedName{Namespace: b.Namespace, Name: b.Name})
	if err != nil {
		return 0, err
	}
	if now.UID != b.UID || now.ResourceVersion != b.ResourceVersion {
		r.release(b, n)
		return againSoon, nil
	}
	// So may that of namespaces.
	if going, err := r.cluster.going(ctx, b.Namespace); err != nil {
		return 0, err
	} else if going {
		return r.keep(ctx, b, n, goingText(name), true)
	}
	pods, err := r.injected(ctx, b.Namespace)
	if err != nil {
		return 0, err
	}
	list := make([]corev1.Pod, 0, len(pods))
	for _, pod := range pods {
		list = append(list, *pod)
	}
	limited, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	err = r.remover.Remove(limited, b, list)
	return r.removed(ctx, b, n, name, err, limited.Err() != nil)
}

// removed goes by what came of a try to delete the data.
func (r *reconciler) removed(ctx context.Context, b *api.Backup, n *notes, name string, err error, late bool) (time.Duration, error) {
	var wait *removal.Wait
	var kept *removal.Kept
	waits := errors.As(err, &wait)
	if err != nil && (late || waits && wait.Going) {
		n.lasts = r.clock().Add(lasting)
	}
	lasts := r.clock().Before(n.lasts)
	switch {
	case err == nil && lasts:
		return r.last(ctx, b, n, "the storage has nothing of it any more, and its deletion may go on")
	case err == nil:
		return r.let(ctx, b, n, saying{kind: corev1.EventTypeNormal, reason: eventDeleted, message: "the data of " + name + " are deleted, and the storage has nothing of it any more"})
	case ctx.Err() != nil:
		return 0, err // this process ends, and the next goes on
	case errors.As(err, &kept):
		return r.spare(ctx, b, n, kept.Message)
	case lasts:
		return r.last(ctx, b, n, line(err.Error()))
	case waits:
		r.turns.Release(n.cluster, b.UID)
		return r.hold(ctx, b, n, string(wait.Reason), line(wait.Message), removeLate)
	}
	r.turns.Release(n.cluster, b.UID)
	return r.hold(ctx, b, n, reasonFailed, "its data cannot be deleted: "+line(err.Error()), removeLate)
}

// last keeps the turn, as nobody knows whether a deletion still goes on.
func (r *reconciler) last(ctx context.Context, b *api.Backup, n *notes, message string) (time.Duration, error) {
	message += fmt.Sprintf("; until %s no backup of the cluster begins", n.lasts.UTC().Format(time.RFC3339))
	return r.hold(ctx, b, n, reasonDeleting, message, min(removeLate, max(n.lasts.Sub(r.clock()), time.Second)))
}

// keep lets the object go without its data.
func (r *reconciler) keep(ctx context.Context, b *api.Backup, n *notes, why string, warn bool) (time.Duration, error) {
	kind := corev1.EventTypeNormal
	if warn {
		kind = corev1.EventTypeWarning
	}
	return r.let(ctx, b, n, saying{kind: kind, reason: eventKept, message: why})
}

// spare keeps data that were to be deleted. That they are kept is written first: what
// sees the object go believes its policy.
func (r *reconciler) spare(ctx context.Context, b *api.Backup, n *notes, why string) (time.Duration, error) {
	version, status := b.ResourceVersion, b.Status.DeepCopy()
	if err := r.cluster.writeKeep(ctx, b); err != nil {
		return 0, err
	}
	b.Status = *status
	n.written(version, b)
	return r.keep(ctx, b, n, why, true)
}

// hold writes down what the deletion waits for, and leaves it alone for a while, each
// time for longer.
func (r *reconciler) hold(ctx context.Context, b *api.Backup, n *notes, reason, message string, late time.Duration) (time.Duration, error) {
	s := deleting(b, reason, message, r.clock())
	if err := r.write(ctx, b, n, &s); err != nil {
		return 0, err
	}
	if n.held != reason && reason != reasonDeleting {
		n.held = reason
		r.say(ctx, b, saying{kind: corev1.EventTypeWarning, reason: eventHeld, message: "its data are not deleted yet: " + message})
	}
	n.pause = min(max(2*n.pause, 5*time.Second), late)
	n.again = r.clock().Add(n.pause)
	return n.pause, nil
}

// let lets the object go.
func (r *reconciler) let(ctx context.Context, b *api.Backup, n *notes, why saying) (time.Duration, error) {
	if err := r.finalize(ctx, b, n, false); err != nil {
		return 0, err
	}
	r.say(ctx, b, why)
	r.log.Info("backup goes", "namespace", b.Namespace, "name", b.Name, "why", why.message)
	r.release(b, n)
	return 0, nil
}

// release gives a turn back.
func (r *reconciler) release(b *api.Backup, n *notes) {
	if n.asked {
		r.turns.Release(n.cluster, b.UID)
		n.asked, n.turn = false, false
	}
}
