package sidecar

import (
	"errors"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

// TestParts: a node tells what it makes, refuses another meanwhile, and discards what is
// not complete, and that only.
func TestParts(t *testing.T) {
	t.Parallel()
	a := authority(t)
	storage := sidecartest.NewStorage("c-0", "c-1")
	counts := &node.Contents{Version: 1, Tables: []node.Table{{Table: "shop.orders", SSTables: 1, Bytes: 5, Rows: 3, Counted: true}}}
	both, err := sidecartest.StartBoth("127.0.0.29", pair(t, a.Value, "ring"), sidecartest.Node{
		Name: "c-0", Storage: storage, Alone: true, Work: takes(sidecartest.Work{Takes: time.Hour, Objects: 1, Bytes: 5, Contents: counts}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(both.Close)
	c, pod := New(a), both.Pod("ring", "c-0")
	storage.Put("whole", "c-0", sidecartest.Part{Started: time.Unix(1, 0), Finished: time.Unix(2, 0), Objects: 3, Contents: counts})
	storage.Put("empty", "c-0", sidecartest.Part{Started: time.Unix(1, 0), Finished: time.Unix(2, 0)})
	m := converse(t, c, pod)
	if err := m.Begin(t.Context(), "b1", false); err != nil {
		t.Fatal(err)
	}
	await(t, m, "b1", Running)
	if r, err := c.Report(t.Context(), pod); err != nil || !r.BackupRunning || r.Backup == nil || r.Backup.Name != "b1" || r.Backup.Since.IsZero() {
		t.Errorf("%+v, %v", r, err)
	}
	if err := m.Begin(t.Context(), "b2", false); !errors.Is(err, ErrBusy) {
		t.Errorf("begun while another runs: %v", err)
	}
	if err := c.Discard(t.Context(), pod, "", "b1"); !errors.Is(err, ErrNotDiscarded) {
		t.Errorf("discarded while it runs: %v", err)
	}
	both.Kill()
	if r, err := c.Report(t.Context(), pod); err != nil || r.BackupRunning || r.Backup != nil {
		t.Errorf("runs after its end: %+v, %v", r, err)
	}
	storage.Put("b1", "c-1", sidecartest.Part{Started: time.Unix(1, 0)})
	for _, name := range []string{"b1", "b1", "never", "empty"} {
		if err := c.Discard(t.Context(), pod, "ns", name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if parts := storage.Parts("b1"); len(parts) != 1 || parts["c-1"].Started.IsZero() || len(storage.Parts("empty")) != 0 {
		t.Errorf("%v", parts)
	}
	if err := c.Discard(t.Context(), pod, "", "whole"); !errors.Is(err, ErrNotDiscarded) || len(storage.Parts("whole")) != 1 {
		t.Errorf("a complete one: %v", err)
	}
	if got, err := c.Contents(t.Context(), pod, "", "whole", "c-0"); err != nil || !reflect.DeepEqual(&got, counts) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := c.Contents(t.Context(), pod, "", "whole", "c-1"); !errors.Is(err, ErrNoContents) {
		t.Errorf("%v", err)
	}
	storage.SetTrouble(errors.New("no storage"))
	if err := c.Discard(t.Context(), pod, "", "whole"); err == nil || errors.Is(err, ErrNotDiscarded) {
		t.Errorf("a storage that does not answer: %v", err)
	}
}

// TestPartsOfBefore: an agent from before knows neither.
func TestPartsOfBefore(t *testing.T) {
	t.Parallel()
	pod := start(t, "127.0.0.29", sidecartest.Pair{}, named("c-0")).Pod("ring", "c-0")
	c := New(nil)
	if _, err := c.Contents(t.Context(), pod, "", "b1", "c-0"); !errors.Is(err, ErrNoContents) {
		t.Errorf("%v", err)
	}
	answered := (*AnswerError)(nil)
	if err := c.Discard(t.Context(), pod, "", "b1"); !errors.As(err, &answered) || answered.Status != http.StatusNotFound && answered.Status != http.StatusMethodNotAllowed {
		t.Errorf("%v", err)
	}
}
