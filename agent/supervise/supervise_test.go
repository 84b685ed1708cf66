package supervise

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/medusa"
	"github.com/stategraft/stategraft/agent/process"
)

func TestServe(t *testing.T) {
	r := newRig(t, "")
	r.set("ini", "")
	r.set("marker", "left by an earlier one")
	r.start()
	r.eventually("it says what it waits for", func() bool {
		return r.state().State == Waiting && strings.Contains(r.state().Reason, "[storage] bucket_name")
	})
	r.set("ini", "one")
	r.eventually("it runs", func() bool { return r.state().State == Running && len(r.starts()) == 1 })
	if r.get("marker") != "" {
		t.Error("the stale mark of a backup stays")
	}
	if strconv.Itoa(r.state().PID) != r.starts()[0] {
		t.Errorf("state has pid %d, started %q", r.state().PID, r.starts())
	}
	r.eventually("its lines are passed on", func() bool { return strings.Contains(r.log.String(), `"msg":"Starting server. Listening`) })
	r.stop()
	if r.alive(r.starts()[0]) {
		t.Error("Medusa still runs")
	}
	for line := range strings.Lines(r.log.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

func TestHeldBack(t *testing.T) {
	r := newRig(t, "")
	hold := make(chan struct{})
	r.config.Hold = func(ctx context.Context) {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	r.start()
	r.eventually("it waits", func() bool { return r.state().State == Waiting && strings.Contains(r.state().Reason, "database") })
	if len(r.starts()) > 0 {
		t.Error("Medusa runs already")
	}
	close(hold)
	r.eventually("it runs", func() bool { return r.state().State == Running })

	r = newRig(t, "")
	r.config.Hold = func(ctx context.Context) { <-ctx.Done() }
	r.start()
	r.stop()
	if len(r.starts()) > 0 {
		t.Errorf("held back, it started Medusa %d times", len(r.starts()))
	}
}

func TestChildDies(t *testing.T) {
	r := newRig(t, "die")
	r.start()
	r.eventually("it is started again and again", func() bool { return r.state().Restarts >= 4 })
	var waits []string
	for line := range strings.Lines(r.log.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if wait, ok := entry["wait_seconds"]; ok {
			waits = append(waits, fmt.Sprint(wait))
		}
	}
	if got := strings.Join(waits[:4], " "); got != "0.01 0.02 0.04 0.04" {
		t.Errorf("waits %s", got)
	}
	// Between two starts: while it runs there is none.
	r.eventually("it tells why it died", func() bool {
		reason := r.state().Reason
		return strings.Contains(reason, "exit status 3") && strings.Contains(reason, "no such bucket, key ***")
	})
	if strings.Contains(r.log.String()+r.get("run/medusa.json"), "s3cret") {
		t.Error("a secret is in the log or the state")
	}
	r.set("mode", "")
	// One that was started before may be about to die.
	var pid int
	r.eventually("it runs in the end", func() bool {
		s := r.state()
		pid = s.PID
		return s.State == Running && strings.TrimSpace(r.get("serving")) == strconv.Itoa(pid)
	})
	// kill -9 from outside
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.eventually("it comes back", func() bool { return r.state().State == Running && r.state().PID != pid })
	r.stop()
}

func TestSteadyResetsTheWait(t *testing.T) {
	r := newRig(t, "die")
	r.config.Steady = 0 // every death counts as the first
	r.start()
	r.eventually("it died often", func() bool { return strings.Count(r.log.String(), `"wait_seconds":0.01`) >= 4 })
	if strings.Contains(r.log.String(), `"wait_seconds":0.02`) {
		t.Error("the wait grows")
	}
}

func TestWhatTheChildLeavesIsEnded(t *testing.T) {
	r := newRig(t, "child")
	r.start()
	var first string
	r.eventually("it died", func() bool {
		first = strings.TrimSpace(r.get("child"))
		return r.state().Restarts >= 1 && first != ""
	})
	r.eventually("the child's child is gone", func() bool { return !r.alive(first) })
}

func TestStopDuringABackup(t *testing.T) {
	r := newRig(t, "backup")
	r.start()
	r.eventually("the state tells of the backup", func() bool { return r.state().Backup })
	if !Busy(r.path("run/medusa.json")) {
		t.Error("not busy")
	}
	pid := r.starts()[0]
	r.cancel()
	r.eventually("it waits", func() bool { return r.state().State == Stopping })
	if !r.alive(pid) {
		t.Fatal("the backup was interrupted")
	}
	if err := os.Remove(r.path("marker")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.ended:
	case <-time.After(time.Minute):
		t.Fatal("it goes on waiting after the backup")
	}
	if r.alive(pid) || Busy(r.path("run/medusa.json")) {
		t.Error("Medusa runs or the state tells of a backup after the end")
	}
}

func TestStopDuringABackupHasALimit(t *testing.T) {
	r := newRig(t, "backup")
	r.config.StopLimit = 200 * time.Millisecond
	r.start()
	r.eventually("a backup runs", func() bool { return r.state().Backup })
	if took := r.stop(); took < 200*time.Millisecond {
		t.Errorf("took %v", took)
	}
	if r.get("marker") != "" || r.alive(r.starts()[0]) {
		t.Error("the mark or Medusa stays")
	}
}

func TestStubbornChild(t *testing.T) {
	r := newRig(t, "stubborn")
	r.start()
	r.eventually("it runs, and hears nothing", func() bool { return r.state().State == Running && r.get("serving") != "" })
	if took := r.stop(); took < process.Grace {
		t.Errorf("took %v", took)
	}
	if r.alive(r.starts()[0]) {
		t.Error("Medusa still runs")
	}
}

func TestConfigurationChanges(t *testing.T) {
	r := newRig(t, "backup")
	r.start()
	r.eventually("a backup runs", func() bool { return r.state().Backup })
	before := r.get("starts")
	r.set("mode", "")
	r.set("ini", "two")
	// Many looks later it still runs: the backup comes first.
	renewed := r.state().Updated
	r.eventually("it looked again", func() bool { return r.state().Updated.After(renewed) })
	if r.get("starts") != before {
		t.Fatal("restarted during a backup")
	}
	if err := os.Remove(r.path("marker")); err != nil {
		t.Fatal(err)
	}
	r.eventually("it is restarted", func() bool { return len(r.starts()) == 2 && r.state().State == Running })
	if r.state().Restarts != 0 {
		t.Error("a wanted restart counts as a death")
	}
}

// A changed configuration that Medusa could not start with leaves it running with
// the old one, and says so.
func TestConfigurationChangesForTheWorse(t *testing.T) {
	r := newRig(t, "")
	r.start()
	r.eventually("it runs", func() bool { return r.state().State == Running && len(r.starts()) == 1 })
	r.set("ini", "")
	r.eventually("it tells", func() bool {
		return r.state().State == Running && strings.Contains(r.state().Reason, "old configuration: medusa.ini: [storage] bucket_name is missing")
	})
	if len(r.starts()) != 1 || !r.alive(r.starts()[0]) {
		t.Fatalf("started %q, or it does not run any more", r.starts())
	}
	r.set("ini", "one")
	r.eventually("what was is good again", func() bool { return r.state().Reason == "" })
	if len(r.starts()) != 1 {
		t.Errorf("started %q for nothing", r.starts())
	}
	r.set("ini", "two")
	r.eventually("it is restarted", func() bool { return len(r.starts()) == 2 && r.state().State == Running })
	if n := strings.Count(r.log.String(), "old configuration"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// Medusa is not started in the clear: it is degraded until it can be.
func TestNotServed(t *testing.T) {
	r := newRig(t, "")
	good := r.config.Prepare
	r.set("pair", "")
	r.config.Prepare = func() (process.Spec, error) {
		if r.get("pair") == "" {
			return process.Spec{}, fmt.Errorf("%w: waiting for Secret x", medusa.ErrNotServed)
		}
		return good()
	}
	r.start()
	r.eventually("it is degraded", func() bool { return r.state().State == Degraded && strings.Contains(r.state().Reason, "Secret x") })
	if len(r.starts()) > 0 {
		t.Error("Medusa was started")
	}
	r.set("pair", "there")
	r.eventually("it runs", func() bool { return r.state().State == Running && r.state().Reason == "" && len(r.starts()) == 1 })
}

func TestNoMedusa(t *testing.T) {
	r := newRig(t, "")
	r.config.Prepare = func() (process.Spec, error) {
		image, err := medusa.Find(r.path("nowhere"), "")
		return image.Serve(""), err
	}
	r.start()
	r.eventually("it idles", func() bool { return r.state().State == Degraded })
	r.stop()
	if n := strings.Count(r.log.String(), "holds no Medusa"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

func TestBusyIsNotForever(t *testing.T) {
	path := filepath.Join(t.TempDir(), "medusa.json")
	for _, c := range []struct {
		updated time.Time
		want    bool
	}{{time.Now(), true}, {time.Now().Add(-2 * fresh), false}} {
		content, err := json.Marshal(State{State: Running, Backup: true, Updated: c.updated})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Busy(path); got != c.want {
			t.Errorf("updated %v: busy %v", c.updated, got)
		}
	}
	if Busy(path + ".none") {
		t.Error("busy without a state")
	}
}

func TestUnwritableStateIsNoReasonToStop(t *testing.T) {
	r := newRig(t, "")
	r.config.StatePath = "/proc/nowhere/medusa.json"
	r.config.Log = slog.New(slog.DiscardHandler)
	r.start()
	r.eventually("it runs", func() bool { return len(r.starts()) == 1 })
}
