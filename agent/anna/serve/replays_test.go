package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/pack"
	"github.com/stategraft/stategraft/agent/anna/replay"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/api/medusa"
	"github.com/stategraft/stategraft/api/node"
)

// holding is a bucket with backup b1 of m-0 and m-1, three keys each.
func (r *rig) holding() {
	for _, n := range []string{"m-0", "m-1"} {
		m := part("b1", n, "m-0", "m-1")
		m.Packs = []manifest.Pack{{Object: "pack-" + n, Records: 3}}
		r.bucket.put("b1", n, m)
		for i := range 3 {
			r.bucket.records["pack-"+n] = append(r.bucket.records["pack-"+n], pack.Record{Key: fmt.Sprint(n, i), Lattice: 1, Payload: []byte("x")})
		}
	}
}

// stage stages parts as the restore container does.
func (r *rig) stage(id string, nodes ...string) stage.Staged {
	r.t.Helper()
	s, err := stage.Fetch(r.t.Context(), r.bucket, id, "b1", nodes, nil, stage.Dir(Staged(r.Places), id), nil)
	must(r.t, err)
	return s
}

func (r *rig) post(q node.ReplayRequest) (int, string) {
	r.t.Helper()
	body, err := json.Marshal(q)
	must(r.t, err)
	answer, err := asking.Post(fmt.Sprintf("http://127.0.0.1:%d%s", r.NodePort, node.PathReplay), "application/json", bytes.NewReader(body))
	must(r.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(r.t, err)
	return answer.StatusCode, string(text)
}

// is waits until the last replay is one of an id in a phase.
func (r *rig) is(id, phase string) *node.Replay {
	r.t.Helper()
	eventually(r.t, func() bool { last := r.replays.last(); return last != nil && last.ID == id && last.Phase == phase })
	return r.replays.last()
}

// TestReplaysWhatIsStaged: what the restore container has left is replayed once, told from
// the first moment, and removed.
func TestReplaysWhatIsStaged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.holding()
	staged := r.stage("ns/restore", "m-0", "m-1")
	r.machine.notYet = errors.New("no routing node is known")
	if last := newServer(r.Config).replays.last(); last == nil || last.ID != "ns/restore" || last.Phase != node.ReplayWaiting || last.Total != 6 {
		t.Fatalf("at the start: %+v", last)
	}
	r.start()
	eventually(t, func() bool { last := r.replays.last(); return strings.Contains(last.Message, "no routing node") })
	r.machine.mutex.Lock()
	r.machine.notYet = nil
	r.machine.mutex.Unlock()
	last := r.is("ns/restore", node.ReplayDone)
	if last.Keys != 6 || last.Total != 6 || last.Ended.IsZero() || last.Message != "" || last.Backup != "b1" {
		t.Errorf("%+v", last)
	}
	eventually(t, func() bool { _, err := stage.Read(staged.Dir); return errors.Is(err, stage.ErrNotStaged) })
	if _, err := os.Stat(filepath.Join(staged.Dir, "replayed.json")); err != nil {
		t.Errorf("the restore container would fetch it again: %v", err)
	}
	if done := r.reported().Done; len(done) != 1 || done[0].ID != "ns/restore" || done[0].Backup != "b1" {
		t.Errorf("%+v", done)
	}
	r.stop()
	r.start()
	if last := r.is("ns/restore", node.ReplayDone); last.Keys != 6 {
		t.Errorf("after a new start: %+v", last)
	}
	if made := r.machine.done(); len(made) != 1 {
		t.Errorf("%q", made)
	}
	// The node of the pod was started anew, and the restore container has run again.
	r.stop()
	r.stage("ns/restore", "m-0")
	rewind(t, staged.Dir)
	r.start()
	eventually(t, func() bool { return len(r.machine.done()) == 2 })
	if last := r.is("ns/restore", node.ReplayDone); last.Total != 3 {
		t.Errorf("anew: %+v", last)
	}
}

// rewind has what is staged be of another second.
func rewind(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "staged.json")
	content, err := os.ReadFile(path)
	must(t, err)
	var s map[string]any
	must(t, json.Unmarshal(content, &s))
	s["since"] = "2026-11-30T04:00:00Z"
	content, err = json.Marshal(s)
	must(t, err)
	must(t, os.WriteFile(path, content, 0o600))
}

// TestReplayGoesOn ends the sidecar in mid-replay, and has a replay fail in a way that
// passes.
func TestReplayGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.holding()
	r.stage("ns/restore", "m-0")
	runs := 0
	r.machine.replays = func(ctx context.Context, _ stage.Staged, tell func(node.Replay)) error {
		runs++
		switch runs {
		case 1:
			<-ctx.Done()
			return ctx.Err()
		case 2:
			return errors.New("read what is staged: input/output error")
		case 3:
			panic("no")
		}
		tell(node.Replay{Phase: node.ReplayDone, Keys: 2, Newer: 1})
		return nil
	}
	r.start()
	r.is("ns/restore", node.ReplayReplaying)
	r.stop()
	r.start()
	if last := r.is("ns/restore", node.ReplayDone); last.Newer != 1 || last.Keys != 3 {
		t.Errorf("%+v", last)
	}
	if runs != 4 || r.machine.heals != 0 {
		t.Errorf("%d runs, %d heals", runs, r.machine.heals)
	}
}

// TestReplayRefused: what cannot become better is told as failed, and stays as it is.
func TestReplayRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.holding()
	s := r.stage("ns/restore", "m-0")
	r.machine.replays = func(_ context.Context, _ stage.Staged, tell func(node.Replay)) error {
		tell(node.Replay{Phase: node.ReplayFailed, Keys: 2, Failed: 1})
		return fmt.Errorf("1 of 3 keys: %w: key \"a\"", replay.ErrRefused)
	}
	r.start()
	if last := r.is("ns/restore", node.ReplayFailed); last.Failed != 1 || !strings.Contains(last.Message, `key "a"`) || last.Ended.IsZero() {
		t.Errorf("%+v", last)
	}
	if _, err := stage.Read(s.Dir); err != nil || len(r.reported().Done) != 0 {
		t.Errorf("%v, %+v", err, r.reported().Done)
	}
}

// TestMerge: what the controllers ask for is staged, replayed and removed; the same again
// is the same, another waits for its end.
func TestMerge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.holding()
	goes := make(chan struct{})
	r.machine.replays = func(context.Context, stage.Staged, func(node.Replay)) error { <-goes; return nil }
	r.start()
	first := node.ReplayRequest{ID: "ns/merge", Backup: "b1", Sources: []string{"m-1"}}
	if status, body := r.post(first); status != 202 || !strings.Contains(body, `"phase":"staging"`) {
		t.Fatalf("%d %s", status, body)
	}
	r.is("ns/merge", node.ReplayReplaying)
	if status, _ := r.post(first); status != 202 {
		t.Errorf("the same again: %d", status)
	}
	other := node.ReplayRequest{ID: "ns/other", Backup: "b1"}
	if status, body := r.post(other); status != 409 || !strings.Contains(body, "ns/merge") {
		t.Errorf("another: %d %s", status, body)
	}
	if _, err := r.medusa().AsyncBackup(t.Context(), &medusa.BackupRequest{Name: "b2"}); err == nil || !strings.Contains(err.Error(), "the replay of backup b1") {
		t.Errorf("a backup meanwhile: %v", err)
	}
	if report := r.reported(); !strings.Contains(report.Busy, "the replay of backup b1") || report.BackupRunning {
		t.Errorf("the report does not say what it is at: %+v", report)
	}
	close(goes)
	r.is("ns/merge", node.ReplayDone)
	eventually(t, func() bool { return r.reported().Busy == "" })
	if status, body := r.post(first); status != 202 || !strings.Contains(body, `"phase":"done"`) {
		t.Errorf("the same after its end: %d %s", status, body)
	}
	if status, _ := r.post(other); status != 202 {
		t.Errorf("another after its end: %d", status)
	}
	if last := r.is("ns/other", node.ReplayDone); last.Total != 0 {
		t.Errorf("%+v", last)
	}
	want := []string{"replay ns/merge of [m-1]: 3 keys", "replay ns/other of []: 0 keys"}
	if made := r.machine.done(); !slices.Equal(made, want) {
		t.Errorf("%q", made)
	}
	eventually(t, func() bool { entries, _ := os.ReadDir(Staged(r.Places)); return len(entries) == 0 })
}

// TestMergeGoesOn: a request outlives the sidecar, and a storage that does not answer; a
// backup that is not there does not get better.
func TestMergeGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.holding()
	r.bucket.trouble = errors.New("no route to storage")
	r.start()
	r.post(node.ReplayRequest{ID: "ns/merge", Backup: "b1", Sources: []string{"m-0"}})
	eventually(t, func() bool { return strings.Contains(r.replays.last().Message, "no route to storage") })
	r.stop()
	r.bucket.mutex.Lock()
	r.bucket.trouble = nil
	r.bucket.mutex.Unlock()
	r.start()
	if last := r.is("ns/merge", node.ReplayDone); last.Keys != 3 {
		t.Errorf("%+v", last)
	}
	r.post(node.ReplayRequest{ID: "ns/none", Backup: "b7", Sources: []string{"m-0"}})
	if last := r.is("ns/none", node.ReplayFailed); !strings.Contains(last.Message, "b7") {
		t.Errorf("%+v", last)
	}
	if status, _ := r.post(node.ReplayRequest{ID: "ns/after", Backup: "b1"}); status != 202 {
		t.Errorf("after a failure: %d", status)
	}
}

// TestMergeEncrypted: what a sidecar has no key for does not get better.
func TestMergeEncrypted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.holding()
	m := part("b1", "m-0", "m-0")
	m.Encrypted = true
	r.bucket.put("b1", "m-0", m)
	r.start()
	r.post(node.ReplayRequest{ID: "ns/merge", Backup: "b1", Sources: []string{"m-0"}})
	if last := r.is("ns/merge", node.ReplayFailed); !strings.Contains(last.Message, "InPlace") {
		t.Errorf("%+v", last)
	}
}

// TestMergeWaits: a replay waits for a backup that is made.
func TestMergeWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.holding()
	goes := make(chan struct{})
	r.machine.backups = func(context.Context, string) error { <-goes; return nil }
	r.start()
	begin(t, r.medusa(), "b2")
	r.post(node.ReplayRequest{ID: "ns/merge", Backup: "b1", Sources: []string{"m-0"}})
	eventually(t, func() bool { return strings.Contains(r.replays.last().Message, "backup b2") })
	close(goes)
	r.is("ns/merge", node.ReplayDone)
}

// TestHeals: only a node that was not restored has what its join hides written again.
func TestHeals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	must(t, os.MkdirAll(Saved(r.Places), 0o755))
	r.start()
	eventually(t, func() bool { r.machine.mutex.Lock(); defer r.machine.mutex.Unlock(); return r.machine.heals == 1 })
	r.stop()
	r.holding()
	r.stage("ns/restore", "m-0")
	r.start()
	r.is("ns/restore", node.ReplayDone)
	eventually(t, func() bool { _, err := os.Stat(Saved(r.Places)); return errors.Is(err, os.ErrNotExist) })
	if r.machine.heals != 1 {
		t.Errorf("%d heals", r.machine.heals)
	}
}
