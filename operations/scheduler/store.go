package scheduler

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// store is what the controller writes, and no more.
type store interface {
	createBackup(ctx context.Context, b *api.Backup) error
	// patchBackup writes what is differs from was in, if nobody has written meanwhile, and
	// brings is up to date.
	patchBackup(ctx context.Context, was, is *api.Backup) error
	// deleteBackup deletes it, if nobody has written meanwhile.
	deleteBackup(ctx context.Context, b *api.Backup) error
	// writeStatus writes the status, if nobody has written meanwhile, and brings s up to
	// date.
	writeStatus(ctx context.Context, s *api.BackupSchedule) error
}

// server is the store of the API server.
type server struct{ client client.Client }

func (w server) createBackup(ctx context.Context, b *api.Backup) error {
	return w.client.Create(ctx, b)
}

func (w server) patchBackup(ctx context.Context, was, is *api.Backup) error {
	return w.client.Patch(ctx, is, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}))
}

func (w server) deleteBackup(ctx context.Context, b *api.Backup) error {
	return w.client.Delete(ctx, b, &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &b.UID, ResourceVersion: &b.ResourceVersion}})
}

func (w server) writeStatus(ctx context.Context, s *api.BackupSchedule) error {
	return w.client.Status().Update(ctx, s)
}
