package backup

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Where the data are to go the policy and our finalizer are there before the object is
// deleted; the API server would let it go at once otherwise, and the data stay.
func TestDelete(t *testing.T) {
	doomed := func(b *api.Backup) { b.Spec.DeletionPolicy = api.DeletionDelete }
	finalized := func(b *api.Backup) { b.Finalizers = []string{"other/one", api.FinalizerBackup} }
	for _, c := range []struct {
		what   string
		is     func(*api.Backup)
		policy api.DeletionPolicy
		fate   api.DeletionPolicy
		gone   bool
		want   api.DeletionPolicy // of one that stays
	}{
		{"kept", nil, "", api.DeletionKeep, true, ""},
		{"kept, as asked for", nil, api.DeletionKeep, api.DeletionKeep, true, ""},
		{"kept against the spec", doomed, api.DeletionKeep, api.DeletionKeep, true, ""},
		{"by the spec", doomed, "", api.DeletionDelete, false, api.DeletionDelete},
		{"against the spec", nil, api.DeletionDelete, api.DeletionDelete, false, api.DeletionDelete},
		{"found", found, api.DeletionDelete, api.DeletionDelete, false, api.DeletionDelete},
		{"with finalizers", finalized, api.DeletionDelete, api.DeletionDelete, false, api.DeletionDelete},
		{"kept, with finalizers", finalized, "", api.DeletionKeep, false, api.DeletionKeep},
		{"pinned, whatever the spec says", func(b *api.Backup) { doomed(b); b.Spec.Pinned = true }, "", api.DeletionKeep, true, ""},
		{"never begun", func(b *api.Backup) { doomed(b); b.Status = api.BackupStatus{} }, "", api.DeletionDelete, true, ""},
		{"being deleted, and now kept", func(b *api.Backup) { doomed(b); finalized(b); b.DeletionTimestamp = at(0) }, api.DeletionKeep, api.DeletionKeep, false, api.DeletionKeep},
	} {
		b := made(c.is)
		cluster := store(nil, b.DeepCopy())
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
			t.Fatal(err)
		}
		if fate := Fate(b, c.policy); fate != c.fate {
			t.Errorf("%s: the data are to %s", c.what, fate)
		}
		if err := errors.Join(Deletable(b, c.policy), Delete(t.Context(), cluster, b, c.policy)); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		now := &api.Backup{}
		err := cluster.Get(t.Context(), client.ObjectKeyFromObject(b), now)
		if apierrors.IsNotFound(err) != c.gone {
			t.Errorf("%s: %v, %+v", c.what, err, now.ObjectMeta)
		}
		if !c.gone && (now.DeletionTimestamp.IsZero() || now.Spec.DeletionPolicy != c.want || !strings.HasSuffix(strings.Join(now.Finalizers, " "), api.FinalizerBackup)) {
			t.Errorf("%s: %+v, %s", c.what, now.ObjectMeta, now.Spec.DeletionPolicy)
		}
	}
}

func TestNotDeletable(t *testing.T) {
	for _, c := range []struct {
		is     func(*api.Backup)
		policy api.DeletionPolicy
		want   string
	}{
		{partial, api.DeletionDelete, "the Backup weekly-1 is pinned, and its data are not deleted: kubectl stategraft backup unpin weekly-1 -n db first"},
		{partial, "", ""},
		{running, "", "the Backup before-upgrade is not over (Running, pods 1/6: 1 of 6 pods is complete): cancel it first, or wait for it"},
		{func(b *api.Backup) { running(b); b.Status.Name = "" }, "", ""}, // nothing was begun
		{found, api.DeletionDelete, ""},
	} {
		err := Deletable(made(c.is), c.policy)
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// Who has pinned it in the meantime is heeded; a controller that writes its status, too.
func TestDeleteMeantime(t *testing.T) {
	for what, change := range map[string]func(*api.Backup){
		"pinned": func(b *api.Backup) { b.Spec.Pinned = true },
		"listed": func(b *api.Backup) { b.Labels = map[string]string{"x": "y"} },
		"doomed": func(b *api.Backup) { b.Spec.DeletionPolicy = api.DeletionDelete },
		"gone":   nil,
	} {
		b := made(nil)
		deleted := false
		cluster := store(&interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			err := c.Delete(ctx, o, opts...)
			deleted = deleted || err == nil
			return err
		}}, b.DeepCopy())
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
			t.Fatal(err)
		}
		other := b.DeepCopy()
		var err error
		if change == nil {
			err = cluster.Delete(t.Context(), other)
		} else {
			change(other)
			err = cluster.Update(t.Context(), other)
		}
		if err != nil {
			t.Fatal(err)
		}
		deleted = false
		policy := api.DeletionDelete
		if what == "doomed" {
			policy = "" // as the spec has it, which was Keep
		}
		err = Delete(t.Context(), cluster, b, policy)
		switch what {
		case "doomed":
			if err == nil || !strings.Contains(err.Error(), "was changed meanwhile") || deleted {
				t.Errorf("%v, deleted %v", err, deleted)
			}
		case "pinned":
			if !errors.Is(err, ErrPinned) || deleted {
				t.Errorf("%v, deleted %v", err, deleted)
			}
		case "listed":
			if err != nil || !deleted {
				t.Errorf("%v, deleted %v", err, deleted)
			}
		default:
			if err != nil && !strings.Contains(err.Error(), "there is no Backup") {
				t.Error(err)
			}
		}
	}
}
