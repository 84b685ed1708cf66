package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv("STATEGRAFT_TEST_REAP") != "" {
		os.Exit(reaping())
	}
	os.Exit(m.Run())
}

func shell(script string) Spec {
	return Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ()}
}

func TestRun(t *testing.T) {
	for _, c := range []struct{ script, output, err string }{
		{"echo a; echo b >&2; printf c", "a\nb\nc", ""},
		{"echo why; exit 3", "why", "exit status 3"},
		{"kill -9 $$", "", "killed by signal 9"},
		{"head -c 40000 /dev/zero | tr '\\0' x", strings.Repeat("x", longest) + "\n" + strings.Repeat("x", longest) + "\n" + strings.Repeat("x", 40000-2*longest), ""},
	} {
		tail := Tail{Size: 10}
		err := Run(t.Context(), shell(c.script), tail.Add)
		if text := fmt.Sprint(err); c.err == "" && err != nil || !strings.HasPrefix(text, c.err) && c.err != "" {
			t.Errorf("%s: %v, want %q", c.script, err, c.err)
		}
		if tail.String() != c.output {
			t.Errorf("%s: output %.40q, want %.40q", c.script, tail.String(), c.output)
		}
	}
	if err := Run(t.Context(), Spec{Path: "/nowhere"}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing program: %v", err)
	}
}

func TestTail(t *testing.T) {
	tail := Tail{Size: 2}
	for _, line := range []string{"a", "b", "c"} {
		tail.Add(line)
	}
	if tail.String() != "b\nc" {
		t.Errorf("%q", tail.String())
	}
}

// alive tells whether a process exists and is no zombie.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestRunEndsTheGroup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	// The program ignores the polite request, and so does what it started.
	script := `trap "" TERM; sleep 100 & echo $! $$ > ` + file + `; mv ` + file + ` ` + file + `.done; wait; wait`
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for !exists(file + ".done") {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	if err := Run(ctx, shell(script), func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	pids, _ := os.ReadFile(file + ".done")
	for _, pid := range strings.Fields(string(pids)) {
		deadline := time.Now().Add(time.Minute)
		for alive(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("process %s still runs", pid)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// TestReap runs this test's program as one that others' orphans fall to.
func TestReap(t *testing.T) {
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), "STATEGRAFT_TEST_REAP=1")
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func reaping() int {
	const subreaper = 36 // PR_SET_CHILD_SUBREAPER
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, subreaper, 1, 0); errno != 0 {
		fmt.Println("prctl:", errno)
		return 1
	}
	Reap()
	// Orphans that end after their parent, and exit codes that must not be lost.
	for i := range 20 {
		err := Run(context.Background(), shell(fmt.Sprintf("setsid sleep 0.05 & exit %d", i)), func(string) {})
		if want := fmt.Sprintf("exit status %d", i); i > 0 && (err == nil || err.Error() != want) {
			fmt.Println("run", i, "gave", err)
			return 1
		}
	}
	deadline := time.Now().Add(time.Minute)
	for {
		tasks, _ := filepath.Glob("/proc/self/task/*/children")
		left := ""
		for _, file := range tasks {
			content, _ := os.ReadFile(file)
			left += string(content)
		}
		if strings.TrimSpace(left) == "" {
			return 0
		}
		if time.Now().After(deadline) {
			fmt.Println("not collected:", left)
			return 1
		}
		time.Sleep(10 * time.Millisecond)
	}
}
