package serve

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stategraft/stategraft/agent/nodeserver"
	"github.com/stategraft/stategraft/api/medusa"
	"github.com/stategraft/stategraft/api/node"
)

func statusOf(t *testing.T, c medusa.MedusaClient, name string) string {
	t.Helper()
	answer, err := c.BackupStatus(t.Context(), &medusa.BackupStatusRequest{BackupName: name})
	if err != nil {
		return status.Code(err).String()
	}
	return answer.GetStatus().String()
}

func begin(t *testing.T, c medusa.MedusaClient, name string) codes.Code {
	t.Helper()
	answer, err := c.AsyncBackup(t.Context(), &medusa.BackupRequest{Name: name, Mode: medusa.BackupRequest_FULL})
	if err == nil && answer.GetStatus() != medusa.StatusType_IN_PROGRESS {
		t.Errorf("%s: begun with status %s", name, answer.GetStatus())
	}
	return status.Code(err)
}

// TestBackup: one backup from the question to its end; another, and a deletion, are
// refused meanwhile, and what runs is told everywhere.
func TestBackup(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	goes := make(chan struct{})
	r.machine.backups = func(context.Context, string) error { <-goes; return nil }
	r.start()
	c := r.medusa()
	if got := statusOf(t, c, "b1"); got != "NotFound" {
		t.Errorf("before: %s", got)
	}
	if code := begin(t, c, "b1"); code != codes.OK {
		t.Fatalf("begin: %s", code)
	}
	if got := statusOf(t, c, "b1"); got != "IN_PROGRESS" {
		t.Errorf("while it runs: %s", got)
	}
	eventually(t, func() bool {
		report := r.reported()
		return report.Backup != nil && report.Backup.Phase == node.Uploading
	})
	if report := r.reported(); !report.BackupRunning || report.Backup.Name != "b1" || report.Backup.Since.IsZero() || report.Node != "m-0" || report.Prefix != "hydro_anna" || report.Size == 0 || report.Waiting != "" {
		t.Errorf("report: %+v", report)
	}
	if code := begin(t, c, "b1"); code != codes.FailedPrecondition {
		t.Errorf("the same again: %s", code)
	}
	if code := begin(t, c, "b2"); code != codes.FailedPrecondition {
		t.Errorf("another: %s", code)
	}
	if _, err := c.DeleteBackup(t.Context(), &medusa.DeleteBackupRequest{Name: "b0"}); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "backup b1 since") {
		t.Errorf("a deletion: %v", err)
	}
	if _, err := r.discard(t.Context(), "", "b1"); !errors.Is(err, nodeserver.ErrKept) {
		t.Errorf("discarded: %v", err)
	}
	close(goes)
	eventually(t, func() bool { return statusOf(t, c, "b1") == "SUCCESS" })
	eventually(t, func() bool { return !r.reported().BackupRunning })
	if code := begin(t, c, "b1"); code != codes.AlreadyExists {
		t.Errorf("what is there: %s", code)
	}
	if made := r.machine.done(); !slices.Equal(made, []string{"backup b1 full=true"}) {
		t.Errorf("made: %q", made)
	}
	if _, err := r.discard(t.Context(), "", "b1"); !errors.Is(err, nodeserver.ErrKept) {
		t.Errorf("a complete one is discarded: %v", err)
	}
}

// TestFailed: what has failed has failed until it is discarded, and can be made again then.
func TestFailed(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(context.Context, string) error{
		"an error": func(context.Context, string) error { return errors.New("thread 2 does not answer") },
		"a panic":  func(context.Context, string) error { panic("no") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.machine.backups = how
			r.start()
			c := r.medusa()
			if code := begin(t, c, "b1"); code != codes.OK {
				t.Fatalf("begin: %s", code)
			}
			eventually(t, func() bool { return statusOf(t, c, "b1") == "FAILED" })
			eventually(t, func() bool { return !r.reported().BackupRunning })
			if report := r.reported(); !strings.Contains(report.WhyFailed("b1"), map[string]string{"an error": "thread 2", "a panic": "panic: no"}[name]) || report.WhyFailed("b2") != "" {
				t.Errorf("why: %+v", report.Failed)
			}
			if code := begin(t, c, "b1"); code != codes.AlreadyExists {
				t.Errorf("over what is left of it: %s", code)
			}
			if d, err := r.discard(t.Context(), "hydro_anna", "b1"); err != nil || d.Objects != 1 || d.Node != "m-0" {
				t.Errorf("discard: %+v, %v", d, err)
			}
			if got := statusOf(t, c, "b1"); got != "NotFound" {
				t.Errorf("after that: %s", got)
			}
			r.machine.mutex.Lock()
			r.machine.backups = nil
			r.machine.mutex.Unlock()
			if code := begin(t, c, "b1"); code != codes.OK {
				t.Errorf("again: %s", code)
			}
			eventually(t, func() bool { return statusOf(t, c, "b1") == "SUCCESS" })
		})
	}
}

// TestInterrupted ends the sidecar in mid-backup, at once or with a signal: the next one
// tells that it has failed, though the storage may have nothing of it.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.machine.backups = func(ctx context.Context, _ string) error { <-ctx.Done(); return context.Cause(ctx) }
	r.start()
	begin(t, r.medusa(), "b1")
	eventually(t, func() bool { return r.reported().BackupRunning })
	r.stop()
	if _, err := os.Stat(filepath.Join(r.Private, "running.json")); err != nil {
		t.Fatalf("nothing says what was done: %v", err)
	}
	r.bucket.mutex.Lock()
	delete(r.bucket.parts, "b1") // before it wrote that it begins
	r.bucket.mutex.Unlock()
	r.start()
	c := r.medusa()
	if got := statusOf(t, c, "b1"); got != "FAILED" {
		t.Errorf("got %s", got)
	}
	if report := r.reported(); report.BackupRunning || !strings.Contains(report.WhyFailed("b1"), "started anew") {
		t.Errorf("%+v", report)
	}
	if _, err := r.discard(t.Context(), "", "b1"); err != nil {
		t.Error(err)
	}
	if got := statusOf(t, c, "b1"); got != "NotFound" {
		t.Errorf("after it was discarded: %s", got)
	}
	// One that another pod of the name has begun, on a node that is lost.
	r.bucket.put("b0", "m-0", nil)
	if got := statusOf(t, c, "b0"); got != "FAILED" {
		t.Errorf("of another pod: %s", got)
	}
}

// TestDelete deletes all nodes' parts, and nothing twice is no error. Whoever asked may
// hang up: it goes on, and nothing else begins meanwhile.
func TestDelete(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bucket.deletes = make(chan struct{})
	r.bucket.put("b1", "m-0", part("b1", "m-0", "m-0", "m-1"))
	r.bucket.put("b1", "m-1", part("b1", "m-1", "m-0", "m-1"))
	r.start()
	c := r.medusa()
	ctx, cancel := context.WithCancel(t.Context())
	hung := make(chan error, 1)
	go func() { _, err := c.DeleteBackup(ctx, &medusa.DeleteBackupRequest{Name: "b1"}); hung <- err }()
	eventually(t, func() bool { r.turn.mutex.Lock(); defer r.turn.mutex.Unlock(); return r.turn.held != nil })
	cancel()
	if err := <-hung; status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
	if code := begin(t, c, "b2"); code != codes.FailedPrecondition {
		t.Errorf("after its caller hung up: %s", code)
	}
	close(r.bucket.deletes)
	eventually(t, func() bool { return statusOf(t, c, "b1") == "NotFound" })
	for range 2 {
		eventually(t, func() bool {
			answer, err := c.DeleteBackup(t.Context(), &medusa.DeleteBackupRequest{Name: "b1"})
			return err == nil && answer.GetStatus() == medusa.StatusType_SUCCESS
		})
	}
}

// TestRefusals: what cannot be done is said, with a code that the controllers read right.
func TestRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start()
	c := r.medusa()
	for _, name := range []string{"", "a/b", "..", strings.Repeat("n", 600)} {
		if got := begin(t, c, name); got != codes.InvalidArgument {
			t.Errorf("%.10q: begin %s", name, got)
		}
		if got := statusOf(t, c, name); got != "InvalidArgument" {
			t.Errorf("%.10q: status %s", name, got)
		}
	}
	r.machine.mutex.Lock()
	r.machine.notYet = errors.New("no routing node is known")
	r.machine.mutex.Unlock()
	if _, err := c.AsyncBackup(t.Context(), &medusa.BackupRequest{Name: "b1"}); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "no routing node") {
		t.Errorf("a node that cannot be asked: %v", err)
	}
	if w := r.reported().Waiting; !strings.Contains(w, "no routing node") {
		t.Errorf("the report does not say it: %q", w)
	}
	r.machine.mutex.Lock()
	r.machine.notYet = nil
	r.machine.mutex.Unlock()
	r.bucket.mutex.Lock()
	r.bucket.trouble = errors.New("403 Forbidden")
	r.bucket.mutex.Unlock()
	if got := statusOf(t, c, "b1"); got != "Internal" {
		t.Errorf("a storage that does not answer: %s", got)
	}
	if got := begin(t, c, "b1"); got != codes.Internal {
		t.Errorf("a storage that does not answer: begin %s", got)
	}
	if _, err := c.PurgeBackups(t.Context(), &medusa.PurgeBackupsRequest{}); err != nil {
		t.Errorf("purge: %v", err)
	}
}

// TestSummaries: what Medusa's service tells of backups.
func TestSummaries(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, n := range []string{"m-0", "m-1"} {
		r.bucket.put("b1", n, part("b1", n, "m-0", "m-1"))
	}
	r.bucket.put("b2", "m-0", part("b2", "m-0", "m-0", "m-1"))
	r.start()
	c := r.medusa()
	b, err := c.GetBackup(t.Context(), &medusa.GetBackupRequest{BackupName: "b1"})
	if err != nil || b.GetStatus() != medusa.StatusType_SUCCESS || b.GetBackup().GetTotalNodes() != 2 || b.GetBackup().GetFinishedNodes() != 2 ||
		b.GetBackup().GetTotalObjects() != 4 || b.GetBackup().GetTotalSize() != 140 || b.GetBackup().GetFinishTime() != began.Unix()+60 {
		t.Errorf("%v, %v", b, err)
	}
	all, err := c.GetBackups(t.Context(), &medusa.GetBackupsRequest{})
	if err != nil || len(all.GetBackups()) != 2 || all.GetOverallStatus() != medusa.StatusType_IN_PROGRESS {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := c.GetBackup(t.Context(), &medusa.GetBackupRequest{BackupName: "b9"}); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "The backup b9 does not exist") {
		t.Errorf("%v", err)
	}
}
