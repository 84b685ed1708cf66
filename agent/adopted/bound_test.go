package adopted

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// found are the bounds that a program finds itself in, in all of its threads, and those
// of what it starts.
type found struct {
	Error    string
	Mark     string
	Score    string
	Nice     []int
	IO       []int
	Data     uint64
	Raisable bool
	Arenas   string
	GoMemory int64
	CPUs     int
	Started  string // that the process is the same
	Child    string
}

func tellBounds() {
	memory, _ := strconv.ParseInt(os.Getenv("STATEGRAFT_MEMORY"), 10, 64)
	// Threads that were there before.
	done := make(chan struct{})
	for range 4 {
		go func() { <-done }()
	}
	time.Sleep(time.Millisecond)
	var f found
	if err := Bound(memory); err != nil {
		f.Error = err.Error()
	}
	score, _ := os.ReadFile("/proc/self/oom_score_adj")
	f.Score, f.Mark, f.Arenas, f.GoMemory = strings.TrimSpace(string(score)), os.Getenv(EnvBounded), os.Getenv("MALLOC_ARENA_MAX"), debug.SetMemoryLimit(-1)
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		id, _ := strconv.Atoi(task.Name())
		nice, _ := syscall.Getpriority(syscall.PRIO_PROCESS, id)
		io, _, _ := syscall.Syscall(syscall.SYS_IOPRIO_GET, 1, uintptr(id), 0)
		f.Nice, f.IO = append(f.Nice, 20-nice), append(f.IO, int(io))
	}
	var limit syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_DATA, &limit)
	f.Data, f.Raisable = limit.Cur, limit.Max > limit.Cur
	f.CPUs = runtime.NumCPU()
	f.Started = fmt.Sprint(os.Getpid())
	child, _ := exec.Command("/bin/sh", "-c", "cat /proc/self/oom_score_adj; ulimit -d; cut -d' ' -f19 /proc/$$/stat").Output()
	f.Child = strings.Join(strings.Fields(string(child)), " ")
	_ = json.NewEncoder(os.Stdout).Encode(f)
}

// TestBound has a program bound itself: all of it is, and what it starts.
func TestBound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		memory int64
		env    []string
		data   uint64
		child  string
		goes   int64
	}{
		{"as much as Medusa", 1 << 30, nil, 2 << 30, "1000 2097152 " + nicer(), (1 << 30) / 10 * 9},
		// Less than what Go reserves would end the agent.
		{"as little as the agent", 64 << 20, nil, 256 << 20, "1000 262144 " + nicer(), (64 << 20) / 10 * 9},
		{"no memory told", 0, nil, ^uint64(0), "1000 unlimited " + nicer(), 1<<63 - 1},
		{"Go's own limit is told", 1 << 30, []string{"GOMEMLIMIT=100MiB", "MALLOC_ARENA_MAX=7"}, 2 << 30, "1000 2097152 " + nicer(), 100 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.memory == 64<<20 && racing() {
				t.Skip("the race detector reserves more")
			}
			command := exec.Command("/proc/self/exe")
			command.Env = append([]string{"STATEGRAFT_TEST_MODE=bound", fmt.Sprintf("STATEGRAFT_MEMORY=%d", c.memory), "PATH=" + os.Getenv("PATH")}, c.env...)
			out, err := command.Output()
			var f found
			if err == nil {
				err = json.Unmarshal(out, &f)
			}
			if err != nil {
				t.Fatalf("%v %s", err, out)
			}
			arenas := "2"
			if len(c.env) > 0 {
				arenas = "7"
			}
			if f.Error != "" || f.Mark != "1" || f.Score != "1000" || f.Data != c.data || f.GoMemory != c.goes || f.Arenas != arenas || f.Child != c.child || f.CPUs != 1 {
				t.Errorf("got %+v", f)
			}
			if c.memory > 0 && !f.Raisable {
				t.Error("the lookups could not have a limit of their own")
			}
			if f.Started != fmt.Sprint(command.Process.Pid) {
				t.Errorf("it is process %s, and was %d", f.Started, command.Process.Pid)
			}
			for i := range f.Nice {
				if strconv.Itoa(f.Nice[i]) != nicer() || f.IO[i] != 2<<13|7 {
					t.Errorf("thread %d has nice %d, io %d", i, f.Nice[i], f.IO[i])
				}
			}
		})
	}
}

// nicer is the priority that a bounded program has: where tests run behind others, theirs.
func nicer() string {
	was, _ := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	return strconv.Itoa(max(niceness, 20-was))
}

func racing() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// TestBoundTells: what could not be set is told by the program that was started again,
// which does not try once more.
func TestBoundTells(t *testing.T) {
	t.Parallel()
	// As it is for whoever runs the tests, which may be 1000, as in a pod that asks for nothing.
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("/proc/self/exe")
	command.Env = []string{"STATEGRAFT_TEST_MODE=bound", "STATEGRAFT_MEMORY=1", EnvBounded + "=lower its priority: not permitted"}
	out, err := command.Output()
	var f found
	if err == nil {
		err = json.Unmarshal(out, &f)
	}
	if err != nil || f.Error != "lower its priority: not permitted" || f.Score != strings.TrimSpace(string(own)) {
		t.Errorf("%v %s", err, out)
	}
}

// TestBoundAsAnyUser: no right of root's is needed.
func TestBoundAsAnyUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("the other tests run as such a user")
	}
	command := exec.Command("/proc/self/exe")
	command.Env = []string{"STATEGRAFT_TEST_MODE=bound", "STATEGRAFT_MEMORY=1073741824", "PATH=" + os.Getenv("PATH")}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := command.CombinedOutput()
	var f found
	if err == nil {
		err = json.Unmarshal(out, &f)
	}
	if err != nil || f.Error != "" || f.Mark != "1" || f.Child != "1000 2097152 "+nicer() {
		t.Errorf("%v %s", err, out)
	}
}
