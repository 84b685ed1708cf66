package backup

import (
	"context"
	"errors"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/operations/sidecar"
)

// mostDiscards is how often a pod may refuse to discard its part.
const mostDiscards = 5

// do does a step, in the order that step says, and tells when to look again.
func (r *reconciler) do(ctx context.Context, b *api.Backup, n *notes, s step) (time.Duration, error) {
	if s.hold && !held(b) {
		if err := r.finalize(ctx, b, n, true); err != nil {
			return 0, err
		}
	}
	if err := r.write(ctx, b, n, &s); err != nil {
		return 0, err
	}
	for _, say := range s.say {
		r.say(ctx, b, say)
	}
	triesFailed.Add(float64(s.retried))
	r.discards(ctx, b, n, s.discard)
	r.begins(ctx, b, n, s.begin)
	return r.pause(b, n), nil
}

// finalize puts the finalizer on or takes it off.
func (r *reconciler) finalize(ctx context.Context, b *api.Backup, n *notes, on bool) error {
	version := b.ResourceVersion
	status := b.Status.DeepCopy()
	if err := r.cluster.writeFinalizer(ctx, b, on); err != nil {
		return err
	}
	b.Status = *status
	n.written(version, b)
	return nil
}

// write writes the status where it changes; also before a deed that was written down
// before, as that may be out of date: who writes an older version is refused.
func (r *reconciler) write(ctx context.Context, b *api.Backup, n *notes, s *step) error {
	if !s.changes(b) && len(s.begin)+len(s.discard) == 0 {
		return nil
	}
	version, phase := b.ResourceVersion, b.Status.Phase
	b.Status = s.status
	if err := r.cluster.writeStatus(ctx, b); err != nil {
		return err
	}
	now := r.clock()
	n.written(version, b)
	n.wrote = now
	if phase == b.Status.Phase {
		return nil
	}
	r.log.Info("backup", "namespace", b.Namespace, "name", b.Name, "phase", b.Status.Phase, "message", b.Status.Message)
	if b.Status.Phase.Final() {
		r.over(b, n)
	}
	return nil
}

// over counts a Backup that has just ended, and lets the next have its turn.
func (r *reconciler) over(b *api.Backup, n *notes) {
	r.release(b, n)
	n.pods = map[string]*note{}
	if b.Status.Phase == api.BackupPlanned {
		return
	}
	finished.WithLabelValues(b.Namespace, string(b.Status.Phase)).Inc()
	if b.Status.Phase == api.BackupComplete && b.Status.Started != nil {
		seconds.Observe(r.clock().Sub(b.Status.Started.Time).Seconds())
	}
}

// say writes an event on the Backup, and on its workload where that is told of it.
func (r *reconciler) say(ctx context.Context, b *api.Backup, say saying) {
	about := ofBackup(b)
	w := b.Spec.Pods
	if !say.owner || w == nil || w.Workload == nil || orElse(w.Workload.Kind, kindSet) != kindSet {
		r.tell.tell(about, nil, say.kind, say.reason, say.message)
		return
	}
	set, err := r.cluster.set(ctx, types.NamespacedName{Namespace: b.Namespace, Name: w.Workload.Name})
	if err != nil || set == nil {
		r.tell.tell(about, nil, say.kind, say.reason, say.message)
		return
	}
	workload := corev1.ObjectReference{APIVersion: "apps/v1", Kind: kindSet, Namespace: b.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion}
	r.tell.tell(workload, &about, say.kind, say.reason, "backup "+b.Name+": "+say.message)
	r.tell.tell(about, &workload, say.kind, say.reason, say.message)
}

// discards has pods remove what an earlier try has left of them.
func (r *reconciler) discards(ctx context.Context, b *api.Backup, n *notes, names []string) {
	names = n.known(names)
	failures := make([]error, len(names))
	r.each(len(names), func(i int) {
		failures[i] = r.ask.Discard(ctx, n.pods[names[i]].pod, b.Status.Prefix, b.Status.Name)
	})
	for i := range names {
		p := n.pod(names[i])
		p.soon(r.clock())
		switch err := failures[i]; {
		case err == nil:
			p.discards, p.refusal = 0, ""
		case refused(err):
			p.discards, p.refusal = p.discards+1, line(err.Error())
			p.later(r.clock())
		default:
			p.later(r.clock())
		}
		if failures[i] != nil {
			p.stale = true
			r.log.Info("a part cannot be removed", "namespace", b.Namespace, "backup", b.Name, "pod", names[i], "error", failures[i].Error())
		}
	}
}

// refused tells whether a pod has said that it does not discard its part, or knows no
// such thing.
func refused(err error) bool {
	var answered *sidecar.AnswerError
	return errors.Is(err, sidecar.ErrNotDiscarded) || errors.As(err, &answered) && answered.Status >= 400 && answered.Status < http.StatusInternalServerError
}

// begins asks the sidecars to begin. That they do is seen when they are asked how far
// they are: one that was not reached may have heard.
func (r *reconciler) begins(ctx context.Context, b *api.Backup, n *notes, names []string) {
	names = n.known(names)
	failures := make([]error, len(names))
	r.each(len(names), func(i int) {
		failures[i] = r.ask.Begin(ctx, n.pods[names[i]].pod, b.Status.Name, b.Spec.TypeOrDefault() == api.BackupFull)
	})
	for i := range names {
		p := n.pod(names[i])
		p.try, p.failure, p.busy = b.Status.Pod(names[i]).Tries, "", kvs.Of(p.pod) && errors.Is(failures[i], sidecar.ErrBusy)
		p.soon(r.clock())
		if errors.Is(failures[i], errNotAsked) {
			p.try = 0 // it is asked when it answers, as one whose Medusa starts up
		}
		if err := failures[i]; err != nil {
			p.failure, p.stale = line(err.Error()), true
			r.log.Info("a sidecar does not begin", "namespace", b.Namespace, "backup", b.Name, "pod", names[i], "error", p.failure)
		}
	}
}

// known are those of some pods that can be asked.
func (n *notes) known(names []string) (known []string) {
	for _, name := range names {
		if n.pod(name).pod != nil {
			known = append(known, name)
		}
	}
	return known
}

// pause is when to look at a Backup again; 0 for not before something happens.
func (r *reconciler) pause(b *api.Backup, n *notes) time.Duration {
	if stageOf(b) == stageOver {
		if n.latest != nil {
			return time.Minute // the informer has it by then, and it need not be kept
		}
		return 0
	}
	if stageOf(b) == stageDelete {
		return time.Millisecond // it was cancelled by that, and goes on to be deleted
	}
	now := r.clock()
	at := now.Add(slowest)
	for i := range b.Status.Pods {
		each := &b.Status.Pods[i]
		p := n.pods[each.Name]
		if each.Phase.Final() || p == nil {
			continue
		}
		due := p.due
		switch {
		case each.Phase == api.PodBackupChecking:
			due = now.Add(quickest)
			if n.recheck.After(due) {
				due = n.recheck
			}
		case each.Phase == api.PodBackupWaiting && p.absent:
			due = now.Add(slowest / 3)
		case each.Phase == api.PodBackupWaiting && nextTry(each).After(due):
			due = nextTry(each)
		}
		if due.Before(at) {
			at = due
		}
	}
	if end := deadline(b, &b.Status); end.Before(at) {
		at = end
	}
	return max(at.Sub(now), 200*time.Millisecond)
}
