package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long is waited for what happens within moments on an idle machine.
const patience = time.Minute

// startShell starts a shell command as a server of the state folder, once that
// is opened.
func startShell(t *testing.T, s state, name, script string) *process {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh on this machine")
	}
	p, err := startProcess(name, sh, []string{"-c", script}, s.dir, s.log(name), s.pidFile(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.stop(context.Background()) })
	return p
}

func openState(t *testing.T) state {
	t.Helper()
	s := state{t.TempDir()}
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	return s
}

// gone waits for a process to end. One that nobody has reaped yet has no program
// any more: whether init reaps orphans soon is the machine's affair.
func gone(pid int) bool {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if _, err := executableOf(pid); err != nil || syscall.Kill(pid, 0) == syscall.ESRCH {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// twoSleepers is a server with a child, whose number it prints.
const twoSleepers = "sleep 1000 & echo child $!; wait"

// childOf waits for the number that twoSleepers prints.
func childOf(t *testing.T, p *process) int {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if number, ok := strings.CutPrefix(fileTail(p.log), "child "); ok {
			pid, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the server prints nothing")
	return 0
}

func TestProcessStopsWithItsGroup(t *testing.T) {
	s := openState(t)
	p := startShell(t, s, "server", twoSleepers)
	child := childOf(t, p)
	if got := readPidFile(s.pidFile("server")); got != p.pid {
		t.Errorf("pid file says %d, want %d", got, p.pid)
	}
	if err := p.stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !gone(p.pid) || !gone(child) {
		t.Error("the server or its child is left")
	}
	if _, err := os.Stat(s.pidFile("server")); !os.IsNotExist(err) {
		t.Errorf("the pid file is left: %v", err)
	}
	if err := p.stop(t.Context()); err != nil {
		t.Errorf("stopping twice: %v", err)
	}
}

func TestProcessIsKilledOnceContextIsDone(t *testing.T) {
	s := openState(t)
	p := startShell(t, s, "stubborn", `trap "" TERM; echo ready; while :; do sleep 1; done`)
	for !p.ended() && !strings.Contains(fileTail(p.log), "ready") {
		time.Sleep(10 * time.Millisecond)
	}
	defer func(was time.Duration) { stopGrace = was }(stopGrace)
	stopGrace = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- p.stop(ctx) }()
	select {
	case err := <-stopped:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("its grace is waited for, though the context is done")
	}
	if !gone(p.pid) {
		t.Error("the process is left")
	}
}

func TestProcessFailureNamesItAndShowsItsLog(t *testing.T) {
	s := openState(t)
	p := startShell(t, s, "unlucky", "echo something went wrong >&2; exit 3")
	err := (&prober{client: http.DefaultClient}).await(t.Context(), "http://"+address(1)+"/readyz", p)
	if err == nil {
		t.Fatal("a server that ended is taken for working")
	}
	for _, want := range []string{"unlucky", "exit status 3", "something went wrong"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}

func TestPidFileOfAnotherProgramIsIgnored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.pid")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := writePidFile(path, os.Getpid(), self); err != nil {
		t.Fatal(err)
	}
	if got := readPidFile(path); got != os.Getpid() {
		t.Errorf("own pid file says %d, want %d", got, os.Getpid())
	}
	for _, text := range []string{
		fmt.Sprintf("%d\n/some/other/program\n", os.Getpid()),
		"0\n" + self, "-1\n" + self, "not a number\n", "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := readPidFile(path); got != 0 {
			t.Errorf("pid file %q is taken for process %d", text, got)
		}
	}
}

func TestStateInUseIsRefused(t *testing.T) {
	s := openState(t)
	if err := s.open(); err == nil || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("opened twice: got error %v", err)
	}
}

func TestOpenKeepsForeignFiles(t *testing.T) {
	s := state{t.TempDir()}
	foreign := filepath.Join(s.dir, "notes.txt")
	if err := os.WriteFile(foreign, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
}

func TestDownKillsWhatADeadOwnerLeft(t *testing.T) {
	s := openState(t)
	p := startShell(t, s, "orphan", twoSleepers)
	child := childOf(t, p)
	// This test itself is the owner: pretend it died.
	if err := os.Remove(s.pidFile(owner)); err != nil {
		t.Fatal(err)
	}
	if err := Down(t.Context(), s.dir); err != nil {
		t.Fatal(err)
	}
	if !gone(p.pid) || !gone(child) {
		t.Error("the server or its child is left")
	}
	if files, _ := filepath.Glob(s.pidFile("*")); len(files) > 0 {
		t.Errorf("pid files are left: %v", files)
	}
	if err := Down(t.Context(), t.TempDir()); err != nil {
		t.Errorf("nothing to stop: %v", err)
	}
}

// TestServersEndWithTheirParent runs this test again as a child that starts a
// server and is then killed.
func TestServersEndWithTheirParent(t *testing.T) {
	const folder = "STATEGRAFT_RIG_TEST_PARENT"
	if dir := os.Getenv(folder); dir != "" {
		startShell(t, state{dir}, "server", "sleep 1000")
		time.Sleep(2 * patience) // until killed
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends children with their parent")
	}
	s := openState(t)
	parent := exec.Command(os.Args[0], "-test.run=^TestServersEndWithTheirParent$")
	parent.Env = append(os.Environ(), folder+"="+s.dir)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for deadline := time.Now().Add(patience); pid == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		pid = readPidFile(s.pidFile("server"))
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	if pid == 0 {
		t.Fatal("the server did not start")
	}
	if !gone(pid) {
		t.Error("the server outlives its killed parent")
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}
