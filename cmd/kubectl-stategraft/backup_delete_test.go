package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// What becomes of the data is said, and written before the object goes; it is told
// from what the controller saw of the object last.
func TestBackupDelete(t *testing.T) {
	pinned := func(b *api.Backup) { b.Spec.Pinned, b.Spec.DeletionPolicy = true, api.DeletionDelete }
	deletes := func(b *api.Backup) {
		b.Spec.DeletionPolicy, b.Finalizers = api.DeletionDelete, []string{api.FinalizerBackup}
	}
	for _, c := range []struct {
		what, line string
		is         func(*api.Backup)
		refused    bool
		out, notes string
		policy     api.DeletionPolicy // that the controller sees; empty where it is asked for nothing
		finalizer  bool
	}{
		{"kept by the spec", "b", nil, false, "backup.stategraft.io/b deleted; its data stay in the storage as 20261130-030000-m0a1b2c3d-b\n", "The next look at the storage makes an object", api.DeletionKeep, false},
		{"with the data", "b --data --yes", nil, false, "backup.stategraft.io/b is being deleted, and its data before it\n", "what it waits for", api.DeletionDelete, true},
		{"with the data, waited for", "b --data --yes --wait", nil, false, "and its data before it\nbackup.stategraft.io/b gone, and its data\n", "", api.DeletionDelete, true},
		{"by the spec, with the data", "backup.stategraft.io/b --yes", deletes, false, "is being deleted, and its data", "what it waits for", api.DeletionDelete, true},
		{"kept against the spec", "b --keep-data", deletes, false, "its data stay", "The next look", api.DeletionKeep, true},
		{"by its name in the storage", "20261130-030000-m0a1b2c3d-b", nil, false, "b deleted; its data stay", "The next look", api.DeletionKeep, false},
		{"pinned", "b", pinned, false, "b deleted; its data stay", "The next look", api.DeletionDelete, false},
		{"pinned, with the data", "b --data --yes", pinned, true, "", "error: the Backup b is pinned, and its data are not deleted: kubectl stategraft backup unpin b -n ns first\n", "", false},
		{"never begun", "b --data", func(b *api.Backup) { b.Status = api.BackupStatus{} }, false, "b deleted; the storage has nothing of it\n", "", api.DeletionDelete, false},
		{"its name", "b -o name", nil, false, "backup.stategraft.io/b\n", "", api.DeletionKeep, false},
	} {
		var last *api.Backup
		s, kubeconfig := keepingServer(t, func(o client.Object) {
			if b, ok := o.(*api.Backup); ok {
				last = b.DeepCopy()
				if !b.DeletionTimestamp.IsZero() {
					b.Finalizers = nil
				}
			}
		}, backupIn("b", c.is))
		out, notes, err := run(nil, append([]string{"backup", "delete", "-n", "ns", "--kubeconfig", kubeconfig}, strings.Fields(c.line)...)...)
		if errors.Is(err, errRefused) != c.refused || !c.refused && err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if !strings.Contains(out, c.out) || c.out == "" && out != "" || !strings.Contains(notes, c.notes) || c.notes == "" && notes != "" {
			t.Errorf("%s: %q, %q", c.what, out, notes)
		}
		if c.refused {
			if len(s.backups()) != 1 || last != nil {
				t.Errorf("%s: it was touched: %+v", c.what, last)
			}
			continue
		}
		if len(s.backups()) != 0 || last == nil || last.Spec.DeletionPolicy != c.policy || (len(last.Finalizers) == 1) != c.finalizer {
			t.Errorf("%s: %d left, seen %+v", c.what, len(s.backups()), last)
		}
	}
}

// What the deletion waits for is said; the time ends the waiting and not the deletion.
func TestBackupDeleteWaits(t *testing.T) {
	t.Parallel() // some seconds, in which nothing happens
	s, kubeconfig := keepingServer(t, func(o client.Object) {
		if b, ok := o.(*api.Backup); ok && !b.DeletionTimestamp.IsZero() {
			b.Status.Phase, b.Status.Message = api.BackupDeleting, "waits for the restore r of the same cluster"
		}
	}, backupIn("b", nil))
	out, notes, err := run(nil, "backup", "delete", "b", "--data", "--yes", "--wait", "--timeout", "5s", "-n", "ns", "--kubeconfig", kubeconfig)
	if err == nil || errors.Is(err, errRefused) || !strings.Contains(err.Error(), "the Backup b is not gone after 5s (waits for the restore r of the same cluster); its deletion goes on") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(out, "is being deleted") || !strings.Contains(notes, "b: waits for the restore r of the same cluster\n") || len(s.backups()) != 1 {
		t.Errorf("%q, %q, %d left", out, notes, len(s.backups()))
	}
	// It can still be let go without its data.
	s.react = func(o client.Object) {
		if b, ok := o.(*api.Backup); ok && !b.DeletionTimestamp.IsZero() && b.Keeps() {
			b.Finalizers = nil
		}
	}
	if _, _, err := run(nil, "backup", "delete", "b", "--keep-data", "--wait", "-n", "ns", "--kubeconfig", kubeconfig); err != nil || len(s.backups()) != 0 {
		t.Errorf("%v, %d left", err, len(s.backups()))
	}
}

// What is being deleted can be waited for without asking for the deletion again.
func TestBackupWaitDeleted(t *testing.T) {
	t.Parallel() // some seconds, in which nothing happens
	_, kubeconfig := keepingServer(t, nil, backupIn("b", nil), backupIn("going", func(b *api.Backup) {
		b.DeletionTimestamp, b.Finalizers = &metav1.Time{Time: time.Now()}, []string{api.FinalizerBackup}
		b.Status.Phase, b.Status.Message, b.Spec.DeletionPolicy = api.BackupDeleting, "waits", api.DeletionDelete
	}))
	for line, want := range map[string]string{
		"b --deleted":                         "the Backup b is not being deleted: kubectl stategraft backup delete b -n ns does that",
		"going --deleted --timeout 5s":        "the Backup going is not gone after 5s (waits)",
		"gone --deleted":                      "",
		"backup.stategraft.io/gone --deleted": "",
	} {
		_, notes, err := run(nil, append([]string{"backup", "wait", "-n", "ns", "--kubeconfig", kubeconfig}, strings.Fields(line)...)...)
		if want == "" && (err != nil || notes != "There is no Backup gone (any more).\n") || want != "" && (err == nil || errors.Is(err, errRefused) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, %q", line, err, notes)
		}
	}
	s, kubeconfig := keepingServer(t, nil, backupIn("b", func(b *api.Backup) {
		b.DeletionTimestamp, b.Finalizers, b.Spec.DeletionPolicy = &metav1.Time{Time: time.Now()}, []string{api.FinalizerBackup}, api.DeletionDelete
	}))
	timer := time.AfterFunc(200*time.Millisecond, func() {
		s.Lock()
		defer s.Unlock()
		b := s.find("backups", "ns", "b").DeepCopyObject().(client.Object)
		b.SetFinalizers(nil)
		s.put(b)
	})
	defer timer.Stop()
	out, _, err := run(nil, "backup", "wait", "b", "--deleted", "-n", "ns", "--kubeconfig", kubeconfig)
	if err != nil || out != "backup.stategraft.io/b gone, and its data\n" {
		t.Errorf("%v, %q", err, out)
	}
}

// On a terminal it is asked before data are deleted; only yes is yes.
func TestBackupDeleteAsks(t *testing.T) {
	for answer, gone := range map[string]bool{"yes\n": true, "no\n": false, "\n": false, "": false} {
		s, kubeconfig := keepingServer(t, backsUp(api.BackupComplete, ""), backupIn("b", nil))
		var said bytes.Buffer
		f := &backupFlags{data: true, connection: connection{namespace: "ns", kubeconfig: kubeconfig}}
		err := f.delete(t.Context(), at(strings.NewReader(answer), &said), []string{"b"})
		if (err == nil) != gone || err != nil && !errors.Is(err, errRefused) || (len(s.backups()) == 0) != gone || !strings.Contains(said.String(), "The data of b are deleted from the storage for good.\nDelete them? (yes/no) ") {
			t.Errorf("%q: %v, %d left, said %q", answer, err, len(s.backups()), &said)
		}
	}
}
