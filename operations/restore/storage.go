package restore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/lookup"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/workload"
)

// triesOfStorage is how many pods are asked for the backups before the storage, and
// not a pod, is held to be at fault.
const triesOfStorage = 3

// announceAfter is how long a pod may look into the storage until the status says that
// it does: most are done before. A test has less.
var announceAfter = 2 * time.Second

// findBackup looks up which backup is meant and what is in it, by way of a pod that
// answers. Where none does, one is started for it.
func (r *reconciler) findBackup(ctx context.Context, f *Facts, v *verdict) error {
	limited, cancel := context.WithTimeout(ctx, storageLimit)
	defer cancel()
	var why error
	lookers := turned(r.lookers(limited, f), f)
	for _, pod := range lookers[:min(triesOfStorage, len(lookers))] {
		err := r.lookIntoBy(limited, pod, f, v)
		switch {
		case err == nil:
			return nil
		case storageFails(err):
			v.problem = unreachable(err)
			return nil
		case !looksNot(err):
			why = err
		}
	}
	if why != nil { // they answer, though not to this; another pod would find it no better
		v.problem = unreachable(why)
		return nil
	}
	return r.findByLookup(limited, f, v)
}

// findByLookup has a pod look that is started for it.
func (r *reconciler) findByLookup(ctx context.Context, f *Facts, v *verdict) error {
	if f.Restore.Spec.DryRun {
		if p := overlap(f.Restore, f.Others); p != nil {
			p.Message += "; no sidecar can look into the storage until that has ended"
			v.problem = p
			return nil
		}
	}
	if r.lookups == nil || len(f.Kin) == 0 {
		v.problem = &Problem{Reason: ReasonLookingUp, Wait: true, Message: "no sidecar answers that could look into the storage"}
		return nil
	}
	pod, err := r.lookups.Pod(ctx, like(f), f.Restore)
	if err != nil {
		v.looking = errors.Is(err, lookup.ErrStarting)
		v.problem = &Problem{Reason: ReasonLookingUp, Wait: true, Message: "no sidecar answers, so a pod is to look into the storage: " + line(err.Error())}
		return nil
	}
	if err := r.lookIntoBy(ctx, pod, f, v); err != nil {
		v.problem = unreachable(err)
	}
	return nil
}

// unreachable says with the cause that the storage does not answer.
func unreachable(err error) *Problem {
	return &Problem{Reason: ReasonStorage, Wait: true, Message: "the storage of the backups does not answer: " + line(err.Error())}
}

// storageFails tells whether a sidecar has answered that it cannot get at the storage,
// or was not done with it in all that time.
func storageFails(err error) bool {
	var answered *sidecar.AnswerError
	if errors.As(err, &answered) {
		return answered.Status >= http.StatusInternalServerError && answered.Status != http.StatusServiceUnavailable // 503: it looks for others just then
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// looksNot tells whether a pod answers, but is none that looks into the storage: it is
// in its restore container.
func looksNot(err error) bool {
	var answered *sidecar.AnswerError
	return errors.As(err, &answered) && answered.Status == http.StatusNotFound
}

// turned are the pods, beginning with another one each time where the storage was not
// reached before: it may be the first one's way to it that fails.
func turned(pods []*corev1.Pod, f *Facts) []*corev1.Pod {
	const every = 30 * time.Second
	if len(pods) < 2 || failedBefore(f.Restore) == "" {
		return pods
	}
	first := int(f.Now.Unix()/int64(every/time.Second)) % len(pods)
	return append(append([]*corev1.Pod(nil), pods[first:]...), pods[:first]...)
}

// failedBefore is what came of the look before, where the storage did not answer.
func failedBefore(r *api.Restore) string {
	if c := meta.FindStatusCondition(r.Status.Conditions, api.ConditionPrechecked); c != nil && c.Reason == ReasonStorage {
		return c.Message
	}
	return ""
}

// lookIntoBy has one pod look, and says so in the status while that lasts long. An
// error is the storage's or the pod's.
func (r *reconciler) lookIntoBy(ctx context.Context, pod *corev1.Pod, f *Facts, v *verdict) error {
	said := f.Restore.DeepCopy()
	said.Status.Message = fmt.Sprintf("pod %s looks for the backup in the storage, since %s", pod.Name, r.clock().UTC().Format(time.RFC3339))
	if before := failedBefore(said); before != "" {
		said.Status.Message = before + "; " + said.Status.Message
	}
	said.Status.Message = workload.Clip(said.Status.Message, messageLimit)
	if said.Status.Phase == "" {
		said.Status.Phase = api.RestoreChecking
	}
	done, written := make(chan struct{}), make(chan bool, 1)
	go func() {
		select {
		case <-done:
			written <- false
		case <-time.After(announceAfter):
			written <- r.cluster.writeStatus(ctx, said) == nil
		}
	}()
	err := r.lookInto(ctx, pod, f, v)
	close(done)
	if <-written {
		f.Restore.ResourceVersion, f.Restore.Status = said.ResourceVersion, said.Status
	}
	return err
}

// lookInto asks one pod.
func (r *reconciler) lookInto(ctx context.Context, pod *corev1.Pod, f *Facts, v *verdict) error {
	backups, err := r.nodes.Backups(ctx, pod, v.prefix)
	if err != nil {
		return fmt.Errorf("listing backups by way of pod %s: %w", pod.Name, err)
	}
	f.Backups = &backups
	name, problem := r.planner.resolve(asBefore(*f, v.done))
	if v.problem = problem; problem != nil {
		return nil
	}
	backup, err := r.nodes.Backup(ctx, pod, v.prefix, name)
	if err != nil {
		return fmt.Errorf("looking into backup %s by way of pod %s: %w", name, pod.Name, err)
	}
	f.Backup = &backup
	return nil
}
