package verify

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// world is what is read and written.
type world struct {
	cached client.Reader // Backups and BackupSchedules
	known  client.Reader // the manager's cache: injected pods, most of them slim, and namespaces' metadata
	live   client.Reader // the API server
	writer client.Client
}

func (w *world) backup(ctx context.Context, name types.NamespacedName) (*api.Backup, error) {
	b := &api.Backup{}
	if err := w.cached.Get(ctx, name, b); err != nil {
		return nil, err
	}
	return b, nil
}

func (w *world) schedule(ctx context.Context, name types.NamespacedName) (*api.BackupSchedule, error) {
	s := &api.BackupSchedule{}
	if err := w.cached.Get(ctx, name, s); err != nil {
		return nil, err
	}
	return s, nil
}

// current tells whether a verification is what the API server has, too. A cache may lag
// behind what was written a moment ago, and a pod be made anew of which all is known.
func (w *world) current(ctx context.Context, b *api.Backup) (bool, error) {
	now := &api.Backup{}
	err := w.live.Get(ctx, client.ObjectKeyFromObject(b), now)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Backup %s/%s: %w", b.Namespace, b.Name, err)
	}
	return now.UID == b.UID && now.DeletionTimestamp == nil && running(now) && podName(now) == podName(b), nil
}

// backups are those of a namespace, or all. They are shared, and not to be changed.
func (w *world) backups(ctx context.Context, namespace string) ([]api.Backup, error) {
	var list api.BackupList
	options := []client.ListOption{client.UnsafeDisableDeepCopy}
	if namespace != "" {
		options = append(options, client.InNamespace(namespace))
	}
	if err := w.cached.List(ctx, &list, options...); err != nil {
		return nil, fmt.Errorf("listing Backups: %w", err)
	}
	return list.Items, nil
}

func (w *world) pod(ctx context.Context, name types.NamespacedName) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := w.live.Get(ctx, name, pod); err != nil {
		return nil, err
	}
	return pod, nil
}

// ours are all pods of restores on trial.
func (w *world) ours(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := w.live.List(ctx, &list, client.HasLabels{api.LabelVerify}); err != nil {
		return nil, fmt.Errorf("listing pods of restores on trial: %w", err)
	}
	return list.Items, nil
}

// remove deletes a pod, and no other of its name.
func (w *world) remove(ctx context.Context, pod *corev1.Pod) error {
	if pod == nil || pod.DeletionTimestamp != nil {
		return nil
	}
	err := w.writer.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// injected are the names of the injected pods of a namespace.
func (w *world) injected(ctx context.Context, namespace string) (names []string, err error) {
	var list corev1.PodList
	if err := w.known.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{api.LabelInjected}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing injected pods: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, nil
}

func (w *world) annotations(ctx context.Context, namespace string) (map[string]string, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := w.known.Get(ctx, client.ObjectKey{Name: namespace}, object); err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	return object.Annotations, nil
}

// writeBackup writes a Backup's status, of which only the verification and its condition
// differ from what was read.
func (w *world) writeBackup(ctx context.Context, b *api.Backup, status *api.BackupStatus) error {
	changed := b.DeepCopy()
	changed.Status = *status
	if err := w.writer.Status().Update(ctx, changed); err != nil {
		return fmt.Errorf("writing the status of Backup %s/%s: %w", b.Namespace, b.Name, err)
	}
	return nil
}

func (w *world) writeSchedule(ctx context.Context, s *api.BackupSchedule, status *api.BackupScheduleStatus) error {
	changed := s.DeepCopy()
	changed.Status = *status
	if err := w.writer.Status().Update(ctx, changed); err != nil {
		return fmt.Errorf("writing the status of BackupSchedule %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}

// outdated tells of an error that what was read is not what is there any more: it is
// read again, and the decision made anew.
func outdated(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }
