package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stategraft/stategraft/agent/anna/membership"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

func (r *rig) get(path string) (int, string) { return r.getFrom("127.0.0.1", path) }

// getAt asks a pod of a whole cluster.
func (r *rig) getAt(path string) (int, string) { return r.getFrom(r.Pod.IP, path) }

func (r *rig) getFrom(host, path string) (int, string) {
	r.t.Helper()
	answer, err := asking.Get(fmt.Sprintf("http://%s:%d%s", host, r.LifePort, path))
	must(r.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(r.t, err)
	return answer.StatusCode, string(text)
}

// TestLife: what a node tells of itself that knows nobody, and has nobody to leave to.
func TestLife(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start()
	if status, text := r.get(PathHealth); status != 200 || text != "ok\n" {
		t.Errorf("%d %q", status, text)
	}
	if status, text := r.get(PathDepart); status != 200 || !strings.Contains(text, membership.ErrStays.Error()) {
		t.Errorf("%d %q", status, text)
	}
	if status, _ := r.get("/"); status != 404 {
		t.Errorf("%d", status)
	}
	begin(t, r.medusa(), "b1")
	var text string
	eventually(t, func() bool { // it is counted a moment before it has ended
		_, text = r.get(PathMetrics)
		return strings.Contains(text, `stategraft_anna_backups_total{result="succeeded"} 1`) && strings.Contains(text, "stategraft_anna_backup_running 0\n")
	})
	for _, want := range []string{"stategraft_anna_storage_configured 1", "stategraft_anna_backup_running 0", "stategraft_anna_last_backup_keys 7", "stategraft_anna_config_changed 0", "stategraft_anna_left 0"} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	wellFormed(t, text)
}

// wellFormed is an exposition in which each family is told once, before its samples.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	var known []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) > 3 && words[1] == "TYPE":
			if slices.Contains(known, words[2]) {
				t.Errorf("%s is told twice", words[2])
			}
			known = append(known, words[2])
		case words[0] == "#":
		default:
			name, _, _ := strings.Cut(words[0], "{")
			if len(words) != 2 || !slices.Contains(known, name) {
				t.Errorf("line %q", line)
			}
		}
	}
}

// TestRoles: each role serves what is its own, and none ends.
func TestRoles(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"routing", "monitoring", "executor", "scheduler", "whatever", ""} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.Pod.Role = role
			s := newServer(r.Config)
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			s.start(ctx, &all)
			eventually(t, func() bool {
				_, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", r.LifePort, PathHealth))
				return err == nil
			})
			_, text := r.get(PathMetrics)
			wellFormed(t, text)
			if is := strings.Contains(text, "stategraft_anna_members_gone"); is != (role == "routing") || strings.Contains(text, "backup") {
				t.Errorf("%s", text)
			}
			if _, text := r.get(PathDepart); !strings.Contains(text, "no keys") {
				t.Errorf("%q", text)
			}
			if _, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", r.GRPCPort)); err == nil {
				t.Error("it serves Medusa's service")
			}
			cancel()
			all.Wait()
		})
	}
}

// TestLeaveLimit: below what kubelet gives, whatever that is.
func TestLeaveLimit(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{
		0: 20 * time.Second, 30 * time.Second: 20 * time.Second, 10 * time.Second: 5 * time.Second, time.Second: time.Second, time.Hour: 20 * time.Second,
	} {
		if got := leaveLimit(grace); got != want {
			t.Errorf("%v: %v, want %v", grace, got, want)
		}
	}
}

// TestLeaveOnce: who asks twice has the node leave once.
func TestLeaveOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var once leaveOnce
		goes, entered := make(chan struct{}), make(chan struct{})
		n := 0
		leave := func() string { n++; close(entered); <-goes; return "left" }
		said := make(chan string, 3)
		go func() { said <- once.do(leave) }()
		<-entered
		for range 2 {
			go func() { said <- once.do(func() string { t.Error("it leaves twice"); return "" }) }()
		}
		synctest.Wait() // both wait for its end: who asks behind that asks anew
		close(goes)
		for range 3 {
			if text := <-said; text != "left" {
				t.Errorf("%q", text)
			}
		}
		if n != 1 {
			t.Errorf("%d times", n)
		}
	})
}

// silent is a messenger of a cluster whose node takes its time to leave.
type silent struct{}

func (silent) Members(context.Context, string) (wire.Membership, error) {
	return wire.Membership{Tiers: []wire.TierServers{{Tier: wire.Memory, Servers: []wire.Server{{Public: "localhost", Private: "localhost"}, {Public: "127.0.0.1", Private: "127.0.0.1"}}}}}, nil
}
func (silent) Push(context.Context, string, int, string) error { return nil }

// TestDepartureOutlastsTheEnd: a departure that is under way when the container is asked to
// end goes on, as long as it may.
func TestDepartureOutlastsTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Pod.Grace = 6 * time.Second
	r.start()
	r.announcer.Messenger = silent{}
	asked := make(chan string, 1)
	r.leaving.Add(1)
	goes := make(chan struct{})
	go func() { defer r.leaving.Done(); <-goes; asked <- "left" }()
	r.end()
	select {
	case <-r.ended:
		t.Fatal("it ended in mid-departure")
	case <-time.After(100 * time.Millisecond):
	}
	if status, _ := r.get(PathHealth); status != 200 {
		t.Error("who asked for the departure is hung up on")
	}
	close(goes)
	<-asked
	r.stop()
}

// TestConfigChange: a ConfigMap that changes is told, also to a sidecar that is started
// after it; one that changes back, too.
func TestConfigChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	write := func(text string) {
		must(t, os.MkdirAll(r.Config.Config, 0o755))
		must(t, os.WriteFile(filepath.Join(r.Config.Config, "anna-config.yml"), []byte(text), 0o600))
	}
	if w := newWatch(r.Config); w.get() != nil {
		t.Errorf("without one: %+v", w.get())
	}
	write("threads: {memory: 1}\n")
	must(t, NoteConfig(r.Places, r.Config.Config))
	write("threads: {memory: 2}\n")
	r.start()
	eventually(t, func() bool { c := r.reported().Config; return c != nil && c.Current != "" && c.Current != c.Started })
	if n := strings.Count(r.log.String(), "the ConfigMap has changed"); n != 1 {
		t.Errorf("said %d times", n)
	}
	write("threads: {memory: 1}\n")
	eventually(t, func() bool { return r.reported().Config.Current == "" })
	must(t, os.RemoveAll(r.Config.Config))
	time.Sleep(60 * time.Millisecond)
	if c := r.reported().Config; c == nil || c.Current != "" {
		t.Errorf("gone: %+v", c)
	}
}
