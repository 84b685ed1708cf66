// Package removal deletes the data of a backup, through Medusa, and sees that they are
// gone.
//
//	removal.go  Remover: what it asks and does, in order
//	ask.go      its questions
//	judge.go    whether a listing allows it; pure
//	keep.go     whether other Backups do not want it
//	wait.go     why it has to wait
//
// One deletion removes the parts of all nodes, and then, for each of these nodes, the
// files that a differential backup has uploaded to NODE/data and that no finished
// backup refers to any more (medusa/purge.py, delete_backup, cleanup_obsolete_files).
// Files younger than backup_grace_period_in_days of medusa.ini, 10 days if it says
// nothing, it leaves: the next deletion of a backup of that node takes them, once they
// are old enough. So nothing is to be purged after it, and nothing is: a purge would
// also delete what max_backup_age and max_backup_count of medusa.ini let go, which
// nobody has asked for here. What the very last backup of a cluster leaves stays.
package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/operations/sidecar"
)

// Nodes asks pods what they know (operations/sidecar).
type Nodes interface {
	Report(ctx context.Context, pod *corev1.Pod) (node.Report, error)
	Backups(ctx context.Context, pod *corev1.Pod, prefix string) (node.Backups, error)
}

// Medusas begins conversations with pods' Medusas (operations/sidecar).
type Medusas interface {
	Medusa(ctx context.Context, pod *corev1.Pod) (*sidecar.Medusa, error)
}

// Discards has a node remove its own part of a backup that is not complete
// (operations/sidecar).
type Discards interface {
	Discard(ctx context.Context, pod *corev1.Pod, prefix, name string) error
}

// Remover deletes the data of backups. It may be used by several goroutines at once.
type Remover struct {
	Nodes    Nodes
	Medusas  Medusas
	Discards Discards         // nil for none: what a deletion has left half of then waits for people
	Cached   client.Reader    // of Backups; nil for none: an empty listing is then believed
	Clock    func() time.Time // nil for time.Now
}

// Remove deletes the data of a backup through a running pod of its cluster that has a
// part in it, and returns nil when the storage has nothing of it: also when there was
// nothing. What is waited for is a *Wait; data that others want kept are a *Kept; any
// other error is the context's. The pods
// are those of the namespace that may be of the cluster, as the API server has them.
//
// The caller has the turn of the cluster (operations/claims): no backup of ours runs.
// That none of others does is seen to here, as far as the pods tell. It may take 15
// minutes, as everything of the backup is deleted one by one. It may be called again at
// any time, whatever came of the call before.
func (r *Remover) Remove(ctx context.Context, b *api.Backup, pods []corev1.Pod) error {
	prefix, name := Stored(b)
	if name == "" {
		return nil // it never had any
	}
	others, err := r.others(ctx, b)
	if err != nil {
		return err
	}
	if err := pinned(name, others); err != nil {
		return err
	}
	pods = r.order(b, pods)
	speaker, err := r.speaker(ctx, pods, prefix)
	if err != nil {
		return err
	}
	list, err := r.list(ctx, speaker, prefix)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(s node.Summary) bool { return s.Name == name })
	if at < 0 {
		return absent(b, others, list)
	}
	if err := expires(b, others, list); err != nil {
		return err
	}
	if err := unsafe(name, list); err != nil {
		return err
	}
	said := r.survey(ctx, pods, prefix)
	if err := runs(name, list, said, r.now()); err != nil {
		return err
	}
	unanswered, err := r.remove(ctx, list[at], said)
	if err == nil {
		err = r.gone(ctx, speaker, prefix, name, said)
	}
	return going(name, unanswered, err)
}

// going is the error of a deletion in which a sidecar has not answered, whatever came of
// it otherwise.
func going(name string, unanswered, err error) error {
	if unanswered == nil {
		return err
	}
	wait := &Wait{Reason: SidecarUnreachable, Message: fmt.Sprintf("a sidecar that was asked to delete backup %s has not answered, and may be at it still: %v", name, unanswered), Err: unanswered}
	errors.As(err, &wait)
	wait.Going = true
	return wait
}

// Stored is where the data of a Backup are: the prefix, and the name below it. It has
// no name as long as no pod was asked.
func Stored(b *api.Backup) (prefix, name string) {
	if b.Spec.Existing != nil {
		return b.Spec.Existing.Prefix, b.Spec.Existing.Name
	}
	return b.Status.Prefix, b.Status.Name
}

// remove has one Medusa delete the backup of all nodes. It tells of one that was asked
// and has not answered.
func (r *Remover) remove(ctx context.Context, what node.Summary, said []answer) (unanswered, err error) {
	var failed error
	asked := false
	for _, a := range said {
		// Anna's deletes whatever there is of the cluster, also where it has no part in it.
		if a.err != nil || !slices.Contains(what.Nodes, a.node) && !kvs.HoldsData(a.pod) {
			continue
		}
		asked = true
		err := r.through(ctx, a.pod, what.Name)
		if errors.Is(err, sidecar.ErrUnanswered) {
			unanswered = err
		}
		switch {
		case err == nil:
			return unanswered, nil
		case ctx.Err() != nil:
			return unanswered, fmt.Errorf("deleting backup %s: %w", what.Name, context.Cause(ctx))
		case errors.Is(err, sidecar.ErrForgotten): // of its part only the entry of the index is left
		case errors.Is(err, sidecar.ErrUnreachable):
			failed = err // it may be at it, and another does no harm
		case errors.Is(err, sidecar.ErrBusy): // no backup runs: it is at a deletion that nobody waits for any more
			return err, waitFor(NotDeleted, err, "backup %s is not deleted, and that is tried again: %v", what.Name, err)
		default:
			return unanswered, waitFor(NotDeleted, err, "backup %s is not deleted, and that is tried again: %v", what.Name, err)
		}
	}
	switch {
	case failed != nil:
		return unanswered, waitFor(SidecarUnreachable, failed, "backup %s cannot be deleted while Medusa does not answer: %v", what.Name, failed)
	case !asked:
		return unanswered, waitFor(NodesGone, nil, "backup %s can be deleted only by a node that has part in it, and none of them runs (%s): start one, or set deletionPolicy: Keep to let the object go and keep the data", what.Name, someOf(what.Nodes))
	}
	return unanswered, nil // see gone
}

func (r *Remover) through(ctx context.Context, pod *corev1.Pod, name string) error {
	m, err := r.Medusas.Medusa(ctx, pod)
	if err != nil {
		if !errors.Is(err, sidecar.ErrUnreachable) {
			err = fmt.Errorf("%w: %w", sidecar.ErrUnreachable, err) // it has no Medusa
		}
		return err
	}
	defer m.Close()
	return m.Delete(ctx, name)
}

// gone sees whether anything is left, and has the nodes remove what is left of their
// parts: a deletion that was interrupted leaves entries of the index that no Medusa
// takes for a backup.
func (r *Remover) gone(ctx context.Context, speaker *corev1.Pod, prefix, name string, said []answer) error {
	for _, last := range []bool{false, true} {
		list, err := r.list(ctx, speaker, prefix)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(list, func(s node.Summary) bool { return s.Name == name })
		if at < 0 {
			return nil
		}
		if last || r.Discards == nil {
			return waitFor(NotDeleted, nil, "Medusa has deleted backup %s, and the storage still has something of it, of %s: it is tried again", name, someOf(list[at].Nodes))
		}
		for _, a := range said {
			if a.err != nil || !slices.Contains(list[at].Nodes, a.node) {
				continue
			}
			if err := r.Discards.Discard(ctx, a.pod, prefix, name); err != nil {
				return waitFor(NotDeleted, err, "what is left of backup %s cannot be removed yet: %v", name, err)
			}
		}
	}
	return nil
}
