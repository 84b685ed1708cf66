package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/event"
)

func TestMain(m *testing.M) {
	if text := os.Getenv("STATEGRAFT_TEST_RESTORE"); text != "" {
		os.Exit(helper(text))
	}
	// Each restore waits for the disk several times, and hundreds are made here.
	if dir, err := os.MkdirTemp("/dev/shm", "restore-*"); err == nil && os.Setenv("TMPDIR", dir) == nil {
		code := m.Run()
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// helper is a restore in a process of its own, to be killed.
func helper(text string) int {
	var c Config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		fmt.Println(err)
		return 2
	}
	c.Secrets = &event.Secrets{}
	c.Log = event.New(os.Stdout, c.Secrets, "restore")
	dir := os.Getenv("FAKE_DIR")
	count := map[string]int{}
	step = func(name string) {
		count[name]++
		want, _ := os.ReadFile(filepath.Join(dir, "hold"))
		if string(want) == fmt.Sprintf("%s:%d", name, count[name]) {
			_ = os.WriteFile(filepath.Join(dir, "held"), fmt.Appendln(nil, os.Getpid()), 0o600)
			select {}
		}
	}
	go func() { time.Sleep(time.Minute); os.Exit(3) }() // nobody waits that long
	if _, _, err := Run(context.Background(), c); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func (r *rig) helper(t *testing.T) *exec.Cmd {
	t.Helper()
	c := r.Config
	c.Log, c.Secrets = nil, nil
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), "STATEGRAFT_TEST_RESTORE="+string(text))
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return command
}

// held waits until the fake Medusa holds, and gives its process group.
func (r *rig) held(t *testing.T) int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		var pid int
		if _, err := fmt.Sscan(r.get("held"), &pid); err == nil {
			return pid
		}
		if time.Now().After(deadline) {
			t.Fatal("Medusa never got there")
		}
	}
}

// TestKilled kills everything in each phase, as the loss of a node does. The
// next start must restore in full.
func TestKilled(t *testing.T) {
	for _, phase := range []string{"precheck", "download", "begin", "removed", "moved", "all", "end"} {
		t.Run(phase, func(t *testing.T) {
			r := newRig(t)
			for path := range content {
				r.set("vol/data/"+path, "before the restore")
			}
			r.set("hold", phase)
			command := r.helper(t)
			group := r.held(t)
			_ = command.Process.Kill()
			_ = command.Wait()
			if err := syscall.Kill(-group, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			before := phase == "precheck" || phase == "download"
			if got := r.marker().Outcome; before && got != "" || !before && got != Applying {
				t.Errorf("outcome %q", got)
			}
			_ = os.Remove(r.path("hold"))
			// The dead process's lock goes when the kernel has taken it apart.
			var err error
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
				if _, err = r.run(); err == nil || !strings.Contains(err.Error(), "another restore") || time.Now().After(deadline) {
					break
				}
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, r.log.String())
			}
			r.restored()
			if n := strings.Count(r.get("calls"), "restore"); phase != "precheck" && n != 2 {
				t.Errorf("Medusa restored %d times: the killed try was taken for good", n)
			}
		})
	}
}

// TestKilledBeforeTheMarker is the last moment: all is there, but nobody has
// checked it and said so.
func TestKilledBeforeTheMarker(t *testing.T) {
	r := newRig(t)
	r.mustRun()
	m := r.marker()
	m.Outcome, m.Finished = Applying, time.Time{}
	if err := m.write(r.DataMount); err != nil {
		t.Fatal(err)
	}
	r.mustRun()
	r.restored()
	if n := strings.Count(r.get("calls"), "restore"); n != 2 {
		t.Errorf("restored %d times", n)
	}
}

// TestTwoAtOnce: while one restores, also where only its Medusa is left, no
// other begins.
func TestTwoAtOnce(t *testing.T) {
	r := newRig(t)
	r.set("hold", "moved")
	command := r.helper(t)
	group := r.held(t)
	if _, err := r.run(); err == nil || !strings.Contains(err.Error(), "another restore") {
		t.Errorf("beside a running one: %v", err)
	}
	_ = command.Process.Kill()
	_ = command.Wait()
	if _, err := r.run(); err == nil || !strings.Contains(err.Error(), "another restore") {
		t.Errorf("beside what a killed one left: %v", err)
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
}

// TestTerminated: asked to end, it ends Medusa and says that it was interrupted.
func TestTerminated(t *testing.T) {
	r := newRig(t)
	r.set("hold", "moved")
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { _, _, err := Run(ctx, r.Config); result <- err }()
	group := r.held(t)
	cancel()
	select {
	case err := <-result:
		if err == nil || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("%v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", group)); err == nil && !strings.Contains(string(stat), ") Z ") {
		t.Error("Medusa still runs")
	}
	_ = os.Remove(r.path("hold"))
	// What Medusa started holds the lock until the kernel has taken it apart.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, err := r.run()
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "another restore") || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	r.restored()
}
