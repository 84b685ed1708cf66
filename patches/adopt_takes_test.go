package patches_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stategraft/stategraft/patches"
)

// The containers take the binary when it comes, not before it is there, and run what they
// took: from a volume that nothing is executed on, and when the file is gone. Neither an
// earlier pod's nor one of an earlier round counts; one of a later round does.
func TestAdoptTakes(t *testing.T) {
	for _, c := range []struct{ what, number string }{{"its own round's", "7"}, {"a later one's", "10"}} {
		volume, own := filepath.Join(t.TempDir(), "with space"), t.TempDir()
		bring := func(number, pod, says string) {
			t.Helper()
			dir := filepath.Join(volume, number)
			binary := filepath.Join(dir, "stategraft-agent-"+pod)
			err := os.MkdirAll(dir, 0o755)
			if err == nil {
				err = os.WriteFile(binary+".new", []byte("#!/bin/sh\necho \"$0 $@ "+says+"\"\n"), 0o644) // not executable
			}
			if err == nil {
				err = os.Rename(binary+".new", binary)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		bring("6", "uid-1", "of an earlier round")
		bring("7", "uid-0", "of an earlier pod")
		bring("11", "uid-0", "of an earlier pod")
		cmd := taking(t, own)
		cmd.Env = append(os.Environ(), patches.EnvAdoptedDir+"="+filepath.Join(volume, "7"), "POD_UID=uid-1")
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		bring(c.number, "uid-1", "of "+c.what)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%s: %v: %s", c.what, err, out.String())
		}
		if want := own + "/stategraft-agent adopted medusa of " + c.what + "\n"; out.String() != want {
			t.Errorf("%s: it ran %q, want %q", c.what, out.String(), want)
		}
	}
}

// taking is the command of a container that takes the binary.
func taking(t *testing.T, own string) *exec.Cmd {
	t.Helper()
	c := mustAdopt(t, pod("", ""), patches.Default())[patches.ContainerMedusa]
	script := slices.Clone(c.Command)
	script[2] = strings.ReplaceAll(script[2], "b=/tmp/", "b="+own+"/")
	if script[2] == c.Command[2] {
		t.Fatalf("%s does not run from /tmp", c.Command[2])
	}
	return exec.CommandContext(t.Context(), script[0], script[1:]...)
}

// A container that waits for the binary ends at once when it is asked to, with status 0; and
// with another one in an image that has no program to sleep, where it would turn without end.
func TestAdoptWaits(t *testing.T) {
	for _, c := range []struct {
		what, path string
		code       int
	}{{"asked to end", os.Getenv("PATH"), 0}, {"no sleep", t.TempDir(), 1}} {
		cmd := taking(t, t.TempDir())
		cmd.Env = []string{"PATH=" + c.path, patches.EnvAdoptedDir + "=" + filepath.Join(t.TempDir(), "1"), "POD_UID=u"}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if c.code == 0 {
			for !caught(t, cmd.Process.Pid, syscall.SIGTERM) {
				time.Sleep(5 * time.Millisecond)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
		<-ended
		if got := cmd.ProcessState.ExitCode(); got != c.code {
			t.Errorf("%s: status %d, want %d", c.what, got, c.code)
		}
	}
}

// caught tells whether a process has said what it does at a signal (proc_pid_status(5), SigCgt).
func caught(t *testing.T, pid int, signal syscall.Signal) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "SigCgt:")
	mask, err := strconv.ParseUint(strings.Fields(rest)[0], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask&(1<<(signal-1)) != 0
}
