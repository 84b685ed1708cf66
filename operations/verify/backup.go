package verify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// usualEvery is between two looks at a pod.
const usualEvery = 10 * time.Second

// runs takes verifications that run to their end.
type runs struct {
	*world
	tell  teller
	clock func() time.Time
	every time.Duration
	log   logr.Logger

	mu sync.Mutex
	// failing is since when no pod of a name can be made. A controller that starts anew
	// counts again; the verification's own time goes on.
	failing map[string]time.Time
}

// Reconcile implements reconcile.Reconciler, of Backups.
func (r *runs) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	b, err := r.backup(ctx, request.NamespacedName)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // its pod goes with it
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading Backup %s: %w", request, err)
	}
	if !running(b) {
		return reconcile.Result{}, nil
	}
	pod, err := r.pod(ctx, types.NamespacedName{Namespace: b.Namespace, Name: podName(b)})
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("reading pod %s: %w", podName(b), err)
	}
	if err != nil {
		pod = nil
	}
	if b.DeletionTimestamp != nil {
		err := r.leave(ctx, b, pod)
		if outdated(err) {
			err = nil
		}
		return reconcile.Result{RequeueAfter: r.every}, err
	}
	s, err := r.scheduleOf(ctx, b)
	if err != nil {
		return reconcile.Result{}, err
	}
	err = r.take(ctx, b, s, pod)
	if outdated(err) {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	return reconcile.Result{RequeueAfter: r.every}, err
}

// leave ends the verification of a Backup that is being deleted, once nothing reads it:
// the deletion of its data waits for that. A pod of a node that is lost stays, and reads
// nothing.
func (r *runs) leave(ctx context.Context, b *api.Backup, pod *corev1.Pod) error {
	if pod != nil && metav1.IsControlledBy(pod, b) && (pod.DeletionTimestamp == nil || r.clock().Sub(pod.DeletionTimestamp.Time) <= startLimit) {
		return r.remove(ctx, pod)
	}
	s := end(b, ReasonNotWanted, "the Backup is being deleted", r.clock())
	if err := r.writeBackup(ctx, b, s.status); err != nil {
		return err
	}
	r.over(b, nil, s.status.Verified)
	return nil
}

// scheduleOf is a Backup's schedule; nil where there is none any more.
func (r *runs) scheduleOf(ctx context.Context, b *api.Backup) (*api.BackupSchedule, error) {
	name := b.Labels[api.LabelSchedule]
	if name == "" {
		return nil, nil
	}
	s, err := r.schedule(ctx, types.NamespacedName{Namespace: b.Namespace, Name: name})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading BackupSchedule %s: %w", name, err)
	}
	return s, nil
}

// take takes the next step.
func (r *runs) take(ctx context.Context, b *api.Backup, s *api.BackupSchedule, pod *corev1.Pod) error {
	var spec *api.BackupVerify
	if s != nil && s.DeletionTimestamp == nil {
		spec = s.Spec.Verify
	}
	next := course(b, spec, pod, r.clock())
	if next.kind == create {
		why, err := r.begin(ctx, b, spec, next.limit)
		if err != nil || why == nil {
			return err
		}
		next = *why
	}
	switch next.kind {
	case wait:
		return r.say(ctx, b, next.message)
	case write:
		if err := r.writeBackup(ctx, b, next.status); err != nil {
			return err
		}
		r.over(b, s, next.status.Verified)
		// Only now: what it has found is known.
		if pod != nil && pod.Labels[api.LabelVerify] == string(b.UID) {
			return r.remove(ctx, pod)
		}
	}
	return nil
}

// begin makes the pod. Where that cannot be done it gives the step that comes of it.
func (r *runs) begin(ctx context.Context, b *api.Backup, spec *api.BackupVerify, limit time.Duration) (*step, error) {
	j := job{backup: b, spec: spec, node: current(b.Status.Verified), limit: limit}
	for i := range b.Status.Pods {
		if p := &b.Status.Pods[i]; p.StorageNode() == j.node {
			j.bytes = p.Bytes
		}
	}
	name := podName(b)
	if same, err := r.current(ctx, b); err != nil || !same {
		return nil, err
	}
	pod, err := r.make(ctx, j)
	if err == nil {
		err = r.writer.Create(ctx, pod)
		if err == nil || apierrors.IsAlreadyExists(err) {
			r.fails(name, false)
			r.log.Info("restoring a backup on trial", "namespace", b.Namespace, "backup", b.Name, "node", j.node, "pod", name)
			return nil, nil
		}
	}
	reason := ReasonNotStarted
	switch {
	case errors.Is(err, errNoLike):
		reason = ReasonNoPod
	case !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err):
		return nil, fmt.Errorf("creating pod %s/%s: %w", b.Namespace, name, err) // of the API server or on the way to it
	}
	text := "no pod can be made: " + err.Error()
	if r.clock().Sub(r.fails(name, true)) > startLimit {
		r.fails(name, false)
		s := end(b, reason, text, r.clock())
		return &s, nil
	}
	return &step{kind: wait, message: text}, nil
}

// fails notes that a pod cannot be made, and gives since when.
func (r *runs) fails(name string, does bool) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !does {
		delete(r.failing, name)
		return time.Time{}
	}
	if r.failing == nil {
		r.failing = map[string]time.Time{}
	}
	since, ok := r.failing[name]
	if !ok {
		since = r.clock()
		r.failing[name] = since
	}
	return since
}

// say writes what is done or waited for, where that has changed.
func (r *runs) say(ctx context.Context, b *api.Backup, message string) error {
	message = clean(message)
	if b.Status.Verified.Message == message {
		return nil
	}
	status := b.Status.DeepCopy()
	status.Verified.Message = message
	return r.writeBackup(ctx, b, status)
}

// over tells of a verification that has ended, if it has.
func (r *runs) over(b *api.Backup, s *api.BackupSchedule, v *api.Verification) {
	if v.Result == api.VerificationRunning {
		return
	}
	kind, reason := eventOf(v.Result)
	tellBoth(r.tell, b, s, kind, reason, v.Message)
	finishedTotal.WithLabelValues(label(v.Result)).Inc()
	r.log.Info("a restore on trial is over", "namespace", b.Namespace, "backup", b.Name, "result", v.Result, "nodes", v.Nodes,
		"sstables", v.SSTables, "rows", v.Rows, "message", v.Message)
}
