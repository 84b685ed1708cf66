package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

var errOutdated = errors.New("what was read is not what is there any more")

func conflict(resource, name string) error {
	return apierrors.NewConflict(api.GroupVersion.WithResource(resource).GroupResource(), name, errOutdated)
}

// create makes the Backup of a run. That it is there already is as good: its name is
// that of the run. A refusal is remembered, to be told, and tried again later.
func (r *reconciler) create(ctx context.Context, s *api.BackupSchedule, b *api.Backup) error {
	at := client.ObjectKeyFromObject(s)
	err := r.store.createBackup(ctx, b)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		r.refusals.set(at, "")
		return nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		first := r.refusals.get(at) == ""
		r.refusals.set(at, workload.Clip(err.Error(), messageLimit/2))
		if first {
			r.log.Info("a Backup is refused", "namespace", b.Namespace, "backup", b.Name, "error", err.Error())
			return conflict("backups", b.Name) // looked at again at once, to say so
		}
		return nil
	}
	return fmt.Errorf("making Backup %s/%s: %w", b.Namespace, b.Name, err)
}

// cancel ends a Backup.
func (r *reconciler) cancel(ctx context.Context, b *api.Backup) error {
	return r.patch(ctx, b.DeepCopy(), "cancelling", func(b *api.Backup) { b.Spec.Cancel = true })
}

// wasDelete ends AnnotationExpiring where retention has not changed the policy.
const wasDelete = " " + string(api.DeletionDelete)

// giveBack gives a Backup back the policy that it had before retention meant to delete
// it.
func (r *reconciler) giveBack(ctx context.Context, b *api.Backup) error {
	return r.patch(ctx, b.DeepCopy(), "keeping", func(b *api.Backup) {
		if !strings.HasSuffix(b.Annotations[api.AnnotationExpiring], wasDelete) {
			b.Spec.DeletionPolicy = api.DeletionKeep
		}
		delete(b.Annotations, api.AnnotationExpiring)
	})
}

// patch changes a Backup that nobody has changed meanwhile, and is a copy of the
// cache's.
func (r *reconciler) patch(ctx context.Context, b *api.Backup, doing string, change func(*api.Backup)) error {
	changed := b.DeepCopy()
	change(changed)
	if err := r.store.patchBackup(ctx, b, changed); err != nil {
		return fmt.Errorf("%s Backup %s/%s: %w", doing, b.Namespace, b.Name, err)
	}
	*b = *changed
	return nil
}

// remove deletes a Backup with its data: its policy says so first, and its finalizer
// holds the object until they have gone, also where it is one that was found and had
// none. It is done to the version that the decision was about, or not at all.
func (r *reconciler) remove(ctx context.Context, s *api.BackupSchedule, m *removal) error {
	b := m.backup.DeepCopy()
	if b.Spec.Pinned {
		return conflict("backups", b.Name)
	}
	_, marked := b.Annotations[api.AnnotationExpiring]
	if !marked || b.Spec.DeletionPolicy != api.DeletionDelete || !slices.Contains(b.Finalizers, api.FinalizerBackup) {
		err := r.patch(ctx, b, "deleting the data of", func(b *api.Backup) {
			if !marked {
				why := string(m.decision.Reasons[0])
				if b.Spec.DeletionPolicy == api.DeletionDelete {
					why += wasDelete
				}
				if b.Annotations == nil {
					b.Annotations = map[string]string{}
				}
				b.Annotations[api.AnnotationExpiring] = why
			}
			b.Spec.DeletionPolicy = api.DeletionDelete
			if !slices.Contains(b.Finalizers, api.FinalizerBackup) {
				b.Finalizers = append(b.Finalizers, api.FinalizerBackup)
			}
		})
		if err != nil {
			return err
		}
	}
	if err := r.delete(ctx, b); err != nil {
		return err
	}
	reason := m.decision.Reasons[0]
	deletedTotal.WithLabelValues(string(reason)).Inc()
	note := fmt.Sprintf("Backup %s, in the storage %s, is %s (%s)", b.Name, m.decision.Name, m.decision.Message, reason)
	r.tell.tell(ofSchedule(s), b, corev1.EventTypeNormal, eventDeleted, note)
	r.log.Info("deleting a backup", "namespace", b.Namespace, "schedule", s.Name, "backup", b.Name, "name", m.decision.Name,
		"bytes", b.Status.Bytes, "reason", reason, "message", m.decision.Message)
	return nil
}

// forget removes the object of a backup of which the storage has nothing.
func (r *reconciler) forget(ctx context.Context, s *api.BackupSchedule, b *api.Backup) error {
	b = b.DeepCopy()
	if b.Spec.DeletionPolicy != api.DeletionKeep {
		if err := r.patch(ctx, b, "forgetting", func(b *api.Backup) { b.Spec.DeletionPolicy = api.DeletionKeep }); err != nil {
			return err
		}
	}
	if err := r.delete(ctx, b); err != nil {
		return err
	}
	r.tell.tell(ofSchedule(s), b, corev1.EventTypeNormal, eventForgotten,
		fmt.Sprintf("Backup %s (%s) is removed: the storage has nothing of it, and failedHistoryLimit keeps %d", b.Name, b.Status.Phase, s.Spec.FailedHistoryOrDefault()))
	return nil
}

// delete deletes a Backup in the version that was read.
func (r *reconciler) delete(ctx context.Context, b *api.Backup) error {
	if err := r.store.deleteBackup(ctx, b); err != nil {
		return fmt.Errorf("deleting Backup %s/%s: %w", b.Namespace, b.Name, err)
	}
	r.marks.add(b.UID, r.clock())
	return nil
}

// refusals remembers why the API server did not take a Backup, to be told in the
// status. A process that starts anew is told once more.
type refusals struct {
	mu sync.Mutex
	of map[types.NamespacedName]string
}

func (r *refusals) get(of types.NamespacedName) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[of]
}

func (r *refusals) set(of types.NamespacedName, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if why == "" {
		delete(r.of, of)
		return
	}
	r.of[of] = why
}
