package cycle

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// busy says what is done to pods of a namespace that a restart would spoil: a backup, which
// has to begin anew then, or a Restore, also one that stops no pod and so does not mark the
// namespace. It is asked before each eviction, and not else.
func (r *reconciler) busy(ctx context.Context, namespace string, all []member) (string, error) {
	ours := func(pod string) bool {
		return slices.ContainsFunc(all, func(m member) bool { return m.pod.Name == pod })
	}
	var backups api.BackupList
	if err := r.list(ctx, &backups, namespace); err != nil {
		return "", err
	}
	for i := range backups.Items {
		b := &backups.Items[i]
		if b.Status.Phase == api.BackupRunning && slices.ContainsFunc(b.Status.Pods, func(at api.PodBackup) bool { return ours(at.Name) }) {
			return fmt.Sprintf("Backup %s is under way", b.Name), nil
		}
	}
	var restores api.RestoreList
	if err := r.list(ctx, &restores, namespace); err != nil {
		return "", err
	}
	for i := range restores.Items {
		is := &restores.Items[i]
		if (is.Status.Phase == api.RestoreRestoring || is.Status.Phase == api.RestoreStopping || len(is.Status.Pending) > 0) &&
			slices.ContainsFunc(is.Status.Pods, func(at api.PodRestore) bool { return ours(at.Name) }) {
			return fmt.Sprintf("Restore %s is under way", is.Name), nil
		}
	}
	return "", nil
}

// list lists what there may be no CustomResourceDefinition of.
func (r *reconciler) list(ctx context.Context, list client.ObjectList, namespace string) error {
	err := r.live.List(ctx, list, client.InNamespace(namespace))
	if err == nil || meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("looking for what is under way in namespace %s: %w", namespace, err)
}
