package backup

import (
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

// What is over, or was found, can be pinned and not cancelled. A change writes its own
// field and no other.
func TestChanges(t *testing.T) {
	for _, c := range []struct {
		change   Change
		is       func(*api.Backup)
		possible bool
		already  bool
		after    api.BackupSpec // of these fields
	}{
		{Cancel, running, true, false, api.BackupSpec{Cancel: true}},
		{Cancel, nil, false, false, api.BackupSpec{Cancel: true}},
		{Cancel, found, false, false, api.BackupSpec{Cancel: true}},
		{Cancel, func(b *api.Backup) { running(b); b.DeletionTimestamp, b.Finalizers = at(0), []string{"x/y"} }, false, false, api.BackupSpec{Cancel: true}},
		{Suspend, running, true, false, api.BackupSpec{Suspend: true}},
		{Resume, func(b *api.Backup) { running(b); b.Spec.Suspend = true }, true, false, api.BackupSpec{}},
		{Resume, running, true, true, api.BackupSpec{}},
		{Pin, nil, true, false, api.BackupSpec{Pinned: true}},
		{Pin, found, true, false, api.BackupSpec{Pinned: true}},
		{Pin, partial, true, true, api.BackupSpec{Pinned: true}},
		{Unpin, partial, true, false, api.BackupSpec{}},
		{Unpin, nil, true, true, api.BackupSpec{}},
	} {
		b := made(c.is)
		if err := c.change.Possible(b); (err == nil) != c.possible || err != nil && b.Status.Phase.Final() && !b.Found() && b.DeletionTimestamp.IsZero() && !errors.Is(err, ask.ErrFinal) {
			t.Errorf("%s of %s: %v", c.change, b.Name, err)
		}
		if got := c.change.Already(b) != ""; got != c.already {
			t.Errorf("%s of %s: already %v", c.change, b.Name, got)
		}
		cluster := store(nil, b.DeepCopy())
		if err := c.change.Apply(t.Context(), cluster, b.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		now := &api.Backup{}
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(b), now); err != nil {
			t.Fatal(err)
		}
		s := now.Spec
		if s.Cancel != c.after.Cancel || s.Suspend != c.after.Suspend || s.Pinned != c.after.Pinned || s.Parallel != b.Spec.Parallel || now.Status.Name != b.Status.Name {
			t.Errorf("%s: %+v", c.change, s)
		}
	}
	gone := Pin.Apply(t.Context(), store(nil), made(nil))
	if gone == nil || gone.Error() != "there is no Backup before-upgrade in namespace db" {
		t.Error(gone)
	}
}
