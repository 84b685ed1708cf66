package adopted

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// EnvBounded marks a program that Bound has started again; its value is bounded, or what
// could not be set.
const EnvBounded = "STATEGRAFT_BOUNDED"

const bounded = "1"

// The bounds.
const (
	// In a Guaranteed pod the kubelet gives -997 to every container, and to one without a
	// request for memory about as much as to the database (k8s.io/kubernetes/pkg/kubelet/qos,
	// GetContainerOOMScoreAdjust): the kernel would take the largest, which is the database.
	oomScore = 1000
	niceness = 10
	// Of the class best-effort (ioprio_set(2)), the lowest.
	ioPriority = 2<<13 | 7
	arenas     = "MALLOC_ARENA_MAX=2"
)

// Of the limit of data (RLIMIT_DATA) the kernel takes off what is reserved, also where it
// is never touched: 8 MiB for the stack of each thread of Python, 64 MiB and more by Go.
// So it is larger than what may really be used; Pressure looks at that.
const (
	reserved      = 2
	leastReserved = 256 << 20 // what the agent itself needs never to fail
)

// Bound keeps the program, all of its threads and what it starts, small and the first to
// go: in memory below about so many bytes (0 for no bound of that), with one of the
// processors at most, and there and at the disks after everybody else. A container of an adopted pod has no resources by which
// the kubelet would do so. For that the program starts itself again, once, in the same
// process; there Bound returns.
//
// An error says which of the bounds could not be set. All others are, and the program can
// go on.
func Bound(memory int64) error {
	if said := os.Getenv(EnvBounded); said != "" {
		if memory > 0 && os.Getenv("GOMEMLIMIT") == "" {
			debug.SetMemoryLimit(memory / 10 * 9) // what is not Go's heap needs some too
		}
		if said != bounded {
			return errors.New(said)
		}
		return nil
	}
	// Priorities are of threads; those of the one that calls exec(2) stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	problem := setBounds(memory)
	env := os.Environ()
	if os.Getenv("MALLOC_ARENA_MAX") == "" {
		env = append(env, arenas)
	}
	mark := bounded
	if problem != nil {
		mark = problem.Error()
	}
	err := syscall.Exec("/proc/self/exe", os.Args, append(env, EnvBounded+"="+mark))
	return errors.Join(problem, fmt.Errorf("start the agent again within its bounds: %w", err))
}

func setBounds(memory int64) error {
	var problems []error
	add := func(what string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", what, err))
		}
	}
	add("make it the first that the kernel ends", os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(oomScore)), 0))
	add("lower its priority", lower())
	_, _, errno := syscall.Syscall(syscall.SYS_IOPRIO_SET, 1 /* IOPRIO_WHO_PROCESS */, 0, ioPriority)
	if errno != 0 {
		add("lower its priority at the disks", errno)
	}
	add("keep it on one processor", oneProcessor())
	if memory > 0 {
		add("limit its memory", limitData(uint64(max(memory*reserved, leastReserved))))
	}
	return errors.Join(problems...)
}

// lower lowers the priority of this thread; where it is lower already it stays.
func lower() error {
	const kernel = 20 // what the kernel's answer is less than: 1 is the lowest
	was, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err == nil && kernel-was >= niceness {
		return nil
	}
	return syscall.Setpriority(syscall.PRIO_PROCESS, 0, niceness)
}

// limitData sets the limit that counts, and leaves the one that it could be raised to: what
// looks into the storage has a limit of its own (agent/python/asking.py).
func limitData(bytes uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &limit); err != nil {
		return err
	}
	limit.Cur = min(bytes, limit.Max)
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &limit)
}

// Bounds tells for the log what counts for this program.
func Bounds() string {
	var told []string
	if text, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		told = append(told, "oom_score_adj "+strings.TrimSpace(string(text)))
	}
	if was, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil {
		told = append(told, fmt.Sprintf("nice %d", 20-was))
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &limit); err == nil && limit.Cur < 1<<62 {
		told = append(told, fmt.Sprintf("data %d MiB", limit.Cur>>20))
	}
	return strings.Join(told, ", ")
}
