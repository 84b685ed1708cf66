package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

// ErrPinned says that the data of a Backup are not deleted, as it is pinned.
var ErrPinned = errors.New("is pinned, and its data are not deleted")

// Deletable tells why a Backup is not to be deleted, if so: with a policy for its data,
// or as its spec has it for none.
func Deletable(b *api.Backup, policy api.DeletionPolicy) error {
	switch {
	case policy == api.DeletionDelete && b.Spec.Pinned:
		return fmt.Errorf("the Backup %s %w: kubectl stategraft backup unpin %s first", b.Name, ErrPinned, path(b))
	case b.DeletionTimestamp.IsZero() && !b.Found() && !b.Status.Phase.Final() && b.Status.Name != "":
		return fmt.Errorf("the Backup %s is not over (%s): cancel it first, or wait for it", b.Name, Stands(b))
	}
	return nil
}

// Fate is what becomes of the data with a policy, or as the spec has it for none; the
// storage may hold nothing.
func Fate(b *api.Backup, policy api.DeletionPolicy) api.DeletionPolicy {
	switch {
	case b.Spec.Pinned:
		return api.DeletionKeep
	case policy != "":
		return policy
	case b.Keeps():
		return api.DeletionKeep
	}
	return api.DeletionDelete
}

// Delete deletes the object, with its data by the policy, which is written first where
// it is not so; none leaves it as it is. Nothing is done to a Backup that somebody has
// changed since it was looked at: it is read and judged again.
func Delete(ctx context.Context, c client.Client, b *api.Backup, policy api.DeletionPolicy) error {
	const most = 5 // a controller writes the status while it is about it
	agreed := Fate(b, policy)
	for try := 1; ; try++ {
		err := deleteAsIs(ctx, c, b, policy)
		if !apierrors.IsConflict(err) || try == most {
			return ask.Explain(err, "delete", ask.Backups, b.Namespace, b.Name)
		}
		uid := b.UID
		switch err := c.Get(ctx, client.ObjectKeyFromObject(b), b); {
		case apierrors.IsNotFound(err) || err == nil && b.UID != uid: // somebody else did it
			return nil
		case err != nil:
			return ask.Explain(err, "get", ask.Backups, b.Namespace, b.Name)
		}
		if err := Deletable(b, policy); err != nil {
			return err
		}
		if now := Fate(b, policy); now != agreed {
			return fmt.Errorf("the Backup %s was changed meanwhile, and its data would go the way of %s: look at it, and ask again", b.Name, now)
		}
	}
}

func deleteAsIs(ctx context.Context, c client.Client, b *api.Backup, policy api.DeletionPolicy) error {
	if patch := settle(b, policy); patch != nil {
		if err := c.Patch(ctx, b, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return err
		}
	}
	if !b.DeletionTimestamp.IsZero() {
		return nil
	}
	uid, version := b.UID, b.ResourceVersion
	return client.IgnoreNotFound(c.Delete(ctx, b, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}

// settle is the patch that comes before the deletion; nil for none. Where the data are
// to go there has to be our finalizer, or the API server would let the object go at
// once, and with it all that is known of them.
func settle(b *api.Backup, policy api.DeletionPolicy) []byte {
	spec, metadata := map[string]any{}, map[string]any{"resourceVersion": b.ResourceVersion}
	if policy != "" && b.Spec.DeletionPolicy != policy && (policy == api.DeletionDelete || b.Spec.DeletionPolicy != "") {
		spec["deletionPolicy"] = policy
	}
	if Fate(b, policy) == api.DeletionDelete && InStorage(b) != "" && b.DeletionTimestamp.IsZero() && !slices.Contains(b.Finalizers, api.FinalizerBackup) {
		metadata["finalizers"] = append(slices.Clone(b.Finalizers), api.FinalizerBackup)
	}
	if len(spec) == 0 && len(metadata) == 1 {
		return nil
	}
	whole := map[string]any{"metadata": metadata}
	if len(spec) > 0 {
		whole["spec"] = spec
	}
	patch, err := json.Marshal(whole)
	if err != nil {
		panic("encoding a patch: " + err.Error()) // of strings
	}
	return patch
}

// Follower follows a Backup.
type Follower = ask.Following[api.Backup, *api.Backup]

// Waits is what the deletion of a Backup waits for; empty where that is not said.
func Waits(b *api.Backup) string {
	if c := meta.FindStatusCondition(b.Status.Conditions, api.ConditionDeleted); c != nil && c.Status == metav1.ConditionFalse {
		return ask.Clean(c.Reason + ": " + c.Message)
	}
	if b.Status.Phase == api.BackupDeleting {
		return ask.Clean(b.Status.Message)
	}
	return ""
}
