package sidecar

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/medusa"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

func startMedusa(t *testing.T, ip string, p sidecartest.Pair, n sidecartest.Node) *sidecartest.Medusa {
	t.Helper()
	m, err := sidecartest.StartMedusa(ip, 0, p, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func converse(t *testing.T, c *Client, pod *corev1.Pod) *Medusa {
	t.Helper()
	m, err := c.Medusa(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// await asks until the backup is in the phase.
func await(t *testing.T, m *Medusa, name string, want Phase) {
	t.Helper()
	var p Phase
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if p, err = m.Status(t.Context(), name); err == nil && p == want {
			return
		}
	}
	t.Fatalf("%s is %s, %v, not %s", name, p, err, want)
}

func takes(w sidecartest.Work) func(string, bool) sidecartest.Work {
	return func(string, bool) sidecartest.Work { return w }
}

// TestBackupAndDelete goes through what is asked of a Medusa that works.
func TestBackupAndDelete(t *testing.T) {
	t.Parallel()
	a := authority(t)
	for kind, p := range map[string]sidecartest.Pair{"TLS": pair(t, a.Value, "ring"), "clear": {}} {
		storage := sidecartest.NewStorage("c-0", "c-1")
		c := New(a)
		var both []*Medusa
		for i, n := range []string{"c-0", "c-1"} {
			s := startMedusa(t, sidecartest.Address(i), p, sidecartest.Node{Name: n, Storage: storage, Work: takes(sidecartest.Work{Takes: 50 * time.Millisecond, Objects: 3, Bytes: 300})})
			both = append(both, converse(t, c, s.Pod("ring", n)))
		}
		m := both[0]
		if _, err := m.Status(t.Context(), "b-001"); !errors.Is(err, ErrForgotten) || err.Error() != "ask Medusa of pod ring/c-0: the sidecar knows no such backup: backup <b-001> does not exist" {
			t.Errorf("%s: got %v", kind, err)
		}
		if _, err := m.Backup(t.Context(), "b-001"); !errors.Is(err, ErrForgotten) {
			t.Errorf("%s: got %v", kind, err)
		}
		if err := m.Begin(t.Context(), "b-001", true); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		await(t, m, "b-001", Succeeded)
		if err := m.Begin(t.Context(), "b-001", true); !errors.Is(err, ErrExists) || !strings.HasSuffix(err.Error(), "b-001 is succeeded") {
			t.Errorf("%s: got %v", kind, err)
		}
		taken, err := m.Backup(t.Context(), "b-001")
		if err != nil || taken.Missing() != "1 of its 2 nodes have not finished" || !taken.Full || taken.Started.IsZero() || !taken.Finished.IsZero() {
			t.Errorf("%s: got %+v, %v", kind, taken, err)
		}
		if err := both[1].Begin(t.Context(), "b-001", false); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		await(t, both[1], "b-001", Succeeded)
		list, err := m.Backups(t.Context())
		if err != nil || len(list) != 1 || list[0].Missing() != "" || list[0].Objects != 6 || list[0].Bytes != 600 || list[0].Nodes[1].Node != "c-1" {
			t.Errorf("%s: got %+v, %v", kind, list, err)
		}
		if err := m.Delete(t.Context(), "b-001"); err != nil || len(storage.Names()) != 0 {
			t.Errorf("%s: got %v; left %v", kind, err, storage.Names())
		}
		if err := m.Delete(t.Context(), "b-001"); !errors.Is(err, ErrForgotten) {
			t.Errorf("%s: got %v", kind, err)
		}
		if len(storage.Overlaps()) != 0 || len(storage.Damaged()) != 0 {
			t.Errorf("%s: overlaps %v, damaged %v", kind, storage.Overlaps(), storage.Damaged())
		}
	}
}

// TestMedusaForgets: what a restart leaves of a backup, in a conversation from before
// and in one from after.
func TestMedusaForgets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		work sidecartest.Work
		want func(Phase, error) bool
	}{
		"begun":     {sidecartest.Work{Takes: time.Hour}, func(p Phase, err error) bool { return p == Failed && err == nil }},
		"not begun": {sidecartest.Work{Before: time.Hour}, func(_ Phase, err error) bool { return errors.Is(err, ErrForgotten) }},
		"over":      {sidecartest.Work{Objects: 1}, func(p Phase, err error) bool { return p == Succeeded && err == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startMedusa(t, "127.0.0.21", sidecartest.Pair{}, sidecartest.Node{Name: "c-0", Storage: sidecartest.NewStorage("c-0"), Work: takes(c.work)})
			client, pod := New(nil), s.Pod("ring", "c-0")
			before := converse(t, client, pod)
			if err := before.Begin(t.Context(), "b-001", false); err != nil {
				t.Fatal(err)
			}
			if c.work.Before == 0 {
				await(t, before, "b-001", map[bool]Phase{true: Running, false: Succeeded}[c.work.Takes > 0])
			}
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			for when, m := range map[string]*Medusa{"after": converse(t, client, pod), "before": before} {
				var p Phase
				var err error = ErrUnreachable
				for begun := time.Now(); errors.Is(err, ErrUnreachable) && time.Since(begun) < time.Minute; time.Sleep(10 * time.Millisecond) {
					p, err = m.Status(t.Context(), "b-001")
				}
				if !c.want(p, err) {
					t.Errorf("%s: got %s, %v", when, p, err)
				}
			}
		})
	}
}

// TestMedusaFails: what fails in Medusa is told apart from what does not answer.
func TestMedusaFails(t *testing.T) {
	t.Parallel()
	storage := sidecartest.NewStorage("c-0")
	s := startMedusa(t, "127.0.0.22", sidecartest.Pair{}, sidecartest.Node{Name: "c-0", Storage: storage, Work: func(name string, _ bool) sidecartest.Work {
		return map[string]sidecartest.Work{"empty": {}, "fails": {Fails: true}, "never": {NeverBegins: true}}[name]
	}})
	c, pod := New(nil), s.Pod("ring", "c-0")
	m := converse(t, c, pod)
	for name, want := range map[string]Phase{"empty": Succeeded, "fails": Failed} {
		if err := m.Begin(t.Context(), name, false); err != nil {
			t.Fatal(err)
		}
		await(t, m, name, want)
	}
	if taken, err := m.Backup(t.Context(), "empty"); err != nil || taken.Missing() != "nothing is in it" {
		t.Errorf("got %+v, %v", taken, err)
	}
	if err := m.Begin(t.Context(), "never", false); err != nil {
		t.Error(err)
	}
	if _, err := m.Status(t.Context(), "never"); !errors.Is(err, ErrForgotten) {
		t.Errorf("got %v", err)
	}
	var answered *CallError
	if err := m.Begin(t.Context(), "", false); !errors.As(err, &answered) || answered.Code != codes.Internal {
		t.Errorf("without a name: got %v", err)
	}
	storage.SetTrouble(errors.New("no route to storage"))
	for name, ask := range map[string]func() error{
		"status": func() error { _, err := m.Status(t.Context(), "empty"); return err },
		"begin":  func() error { return m.Begin(t.Context(), "other", false) },
		"backup": func() error { _, err := m.Backup(t.Context(), "empty"); return err },
		"list":   func() error { _, err := m.Backups(t.Context()); return err },
		"delete": func() error { return m.Delete(t.Context(), "empty") },
	} {
		if err := ask(); !errors.As(err, &answered) || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrForgotten) || !strings.Contains(err.Error(), "no route to storage") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := m.Purge(t.Context()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a purge that ends the process: got %v", err)
	}
	s.Kill()
	if _, err := c.Medusa(t.Context(), pod); !errors.Is(err, ErrUnreachable) || errors.As(err, &answered) {
		t.Errorf("nobody there: got %v", err)
	}
	if _, err := m.Status(t.Context(), "empty"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("nobody there any more: got %v", err)
	}
}

// TestDeletes: Medusa's ways with what is to go.
func TestDeletes(t *testing.T) {
	t.Parallel()
	storage := sidecartest.NewStorage("c-0", "c-1")
	old := sidecartest.Part{Started: time.Unix(1, 0), Finished: time.Unix(2, 0), Objects: 1, Bytes: 10}
	for _, name := range []string{"b-001", "b1", "b10", "x"} {
		storage.Put(name, "c-1", old)
	}
	storage.Put("b-001", "c-0", old)
	s := startMedusa(t, "127.0.0.23", sidecartest.Pair{}, sidecartest.Node{Name: "c-0", Storage: storage, MaxCount: 1, Work: takes(sidecartest.Work{Takes: time.Hour})})
	m := converse(t, New(nil), s.Pod("ring", "c-0"))

	// Without a question before, it does not know what it has in the storage.
	plain, err := grpc.NewClient(fmt.Sprintf("passthrough:///%s:%d", s.IP, s.Port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if answer, err := medusa.NewMedusaClient(plain).DeleteBackup(t.Context(), &medusa.DeleteBackupRequest{Name: "b-001"}); err != nil || answer.GetStatus() != medusa.StatusType_FAILED {
		t.Errorf("got %v, %v", answer, err)
	}
	if err := m.Delete(t.Context(), "b-001"); err != nil || slices.Contains(storage.Names(), "b-001") {
		t.Errorf("got %v; left %v", err, storage.Names())
	}
	if err := m.Delete(t.Context(), "x"); !errors.Is(err, ErrForgotten) {
		t.Errorf("one it has no part in: got %v", err)
	}
	storage.Put("b1", "c-0", old)
	if err := m.Delete(t.Context(), "b1"); err != nil || !slices.Equal(storage.Names(), []string{"x"}) || !slices.Equal(storage.Damaged(), []string{"b10"}) {
		t.Errorf("got %v; left %v, damaged %v", err, storage.Names(), storage.Damaged())
	}
	if err := m.Begin(t.Context(), "runs", false); err != nil {
		t.Fatal(err)
	}
	await(t, m, "runs", Running)
	if err := m.Delete(t.Context(), "runs"); !errors.Is(err, ErrNotDeleted) {
		t.Errorf("one that runs: got %v", err)
	}
	storage.Put("a", "c-0", old)
	if p, err := m.Purge(t.Context()); err != nil || p.Backups != 1 || p.Objects != 1 || p.Bytes != 10 || !slices.Contains(storage.Damaged(), "runs") {
		t.Errorf("a purge under a backup: got %+v, %v; damaged %v", p, err, storage.Damaged())
	}
}

// TestBoth: what the agent tells beside Medusa of the same storage.
func TestBoth(t *testing.T) {
	t.Parallel()
	a := authority(t)
	storage := sidecartest.NewStorage("c-0", "c-1")
	begin := make(chan struct{})
	both, err := sidecartest.StartBoth("127.0.0.27", pair(t, a.Value, "ring"), sidecartest.Node{Name: "c-0", Storage: storage, Work: takes(sidecartest.Work{Begin: begin, Takes: 50 * time.Millisecond, Objects: 4, Bytes: 40})})
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	c, pod := New(a), both.Pod("ring", "c-0")
	m := converse(t, c, pod)
	if b, err := c.Backup(t.Context(), pod, "", "b-001"); err != nil || len(b.Members) != 0 {
		t.Errorf("before: got %+v, %v", b, err)
	}
	if err := m.Begin(t.Context(), "b-001", true); err != nil {
		t.Fatal(err)
	}
	_, err = m.Status(t.Context(), "b-001")
	if r, err2 := c.Report(t.Context(), pod); !errors.Is(err, ErrForgotten) || err2 != nil || !r.BackupRunning || r.Node != "c-0" {
		t.Errorf("not begun: got %v; %+v, %v", err, r, err2)
	}
	close(begin)
	await(t, m, "b-001", Succeeded)
	b, err := c.Backup(t.Context(), pod, "", "b-001")
	if mine, _ := b.Member("c-0"); err != nil || b.Complete || !mine.Complete || mine.Objects != 4 || mine.Type != "full" || len(b.Ring) != 2 {
		t.Errorf("after: got %+v, %v", b, err)
	}
	storage.Put("b-001", "c-1", sidecartest.Part{Started: time.Now(), Finished: time.Now(), Objects: 1})
	if list, err := c.Backups(t.Context(), pod, ""); err != nil || len(list.Backups) != 1 || !list.Backups[0].Complete || list.Backups[0].Finished.IsZero() {
		t.Errorf("list: got %+v, %v", list, err)
	}
	if r, err := c.Report(t.Context(), pod); err != nil || r.BackupRunning {
		t.Errorf("over: got %+v, %v", r, err)
	}
}
