package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// CacheEnv is the environment variable that names the folder to cache in, in
// place of stategraft/rig in the user's cache folder ([os.UserCacheDir]).
const CacheEnv = "STATEGRAFT_RIG_CACHE"

const (
	heartbeat = 15 * time.Second // between two progress lines of one build
	tailLines = 30               // lines of output that an error carries
)

// CacheDir answers the folder that all versions are cached under.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a cache folder (%s can name one): %w", CacheEnv, err)
	}
	return filepath.Join(dir, "stategraft", "rig"), nil
}

// Build makes the named programs, or those of a control plane where none is
// named, unless they are cached, and answers the folder that holds them. It
// needs the go command, and on an empty module cache the network. Progress goes
// to log, which may be nil.
//
// With an empty Go build cache it takes a quarter of an hour on two cores: call
// it before the tests, whose time limit is shorter. Several processes may build
// at once: one works, the others wait for it. A program in the folder is always
// whole.
func Build(ctx context.Context, log io.Writer, names ...string) (string, error) {
	log = newLog(log)
	if len(names) == 0 {
		names = ControlPlanePrograms()
	}
	for _, name := range names {
		if !slices.ContainsFunc(programs, func(p program) bool { return p.name == name }) {
			return "", fmt.Errorf("the rig cannot build %q", name)
		}
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	home := filepath.Join(cache, KubernetesVersion+"-"+EtcdVersion)
	bin := filepath.Join(home, "bin")
	// Programs appear by rename, so one that is there needs no lock.
	if len(missing(bin, names)) == 0 {
		return bin, nil
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(home, "lock"), log)
	if err != nil {
		return "", err
	}
	defer unlock()

	todo := missing(bin, names) // another builder may have made some meanwhile
	var expect time.Duration
	for _, p := range todo {
		expect += p.expect
	}
	if len(todo) > 0 {
		fmt.Fprintf(log, "rig: building %d programs into %s: about %s with an empty Go build cache, far less with a filled one\n", len(todo), bin, expect)
	}
	start := time.Now()
	for _, p := range todo {
		if err := p.build(ctx, log, home, bin); err != nil {
			return "", fmt.Errorf("building %s: %w", p.name, err)
		}
	}
	if len(todo) > 0 {
		fmt.Fprintf(log, "rig: built in %s\n", time.Since(start).Round(time.Second))
	}
	return bin, nil
}

// missing are the named programs that bin lacks, in building order.
func missing(bin string, names []string) []program {
	var todo []program
	for _, p := range programs {
		if _, err := os.Stat(filepath.Join(bin, p.name)); err != nil && slices.Contains(names, p.name) {
			todo = append(todo, p)
		}
	}
	return todo
}

// build makes one program, under the lock.
func (p program) build(ctx context.Context, log io.Writer, home, bin string) error {
	// A module of its own, in a new folder: a killed build may have left one, and
	// a compiler that still writes to it.
	leftovers, err := filepath.Glob(filepath.Join(home, "module-*"))
	if err != nil {
		return fmt.Errorf("looking for leftovers: %w", err)
	}
	for _, old := range leftovers {
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("removing leftovers: %w", err)
		}
	}
	dir, err := os.MkdirTemp(home, "module-")
	if err != nil {
		return fmt.Errorf("making a module: %w", err)
	}
	defer os.RemoveAll(dir)

	start := time.Now()
	fmt.Fprintf(log, "rig: building %s (about %s with an empty Go build cache)\n", p.name, p.expect)
	done := make(chan struct{})
	defer close(done)
	go func() {
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				fmt.Fprintf(log, "rig: still building %s: %s of about %s\n", p.name, time.Since(start).Round(time.Second), p.expect)
			}
		}
	}()

	// The first one only keeps the go command from finding a module above.
	modFile := filepath.Join(dir, "go.mod")
	if err := os.WriteFile(modFile, []byte("module rig\n"), 0o644); err != nil {
		return fmt.Errorf("writing go.mod: %w", err)
	}
	text, err := p.module(ctx, dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(modFile, []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing go.mod: %w", err)
	}
	made := filepath.Join(dir, p.name)
	if _, err := goCommand(ctx, dir, "build", "-ldflags", strings.TrimSpace("-s -w "+p.ldflags), "-o", made, p.pkg); err != nil {
		return err
	}
	if err := os.Rename(made, filepath.Join(bin, p.name)); err != nil {
		return fmt.Errorf("moving it into the cache: %w", err)
	}
	fmt.Fprintf(log, "rig: built %s in %s\n", p.name, time.Since(start).Round(time.Second))
	return nil
}

// goCommand runs the go command in dir and answers its standard output. Its
// error holds the last lines of what it printed.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	var stdout, both bytes.Buffer
	output := newLog(&both) // two streams are copied at once
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// The caller's settings for its own module must not leak in: flags, a
	// workspace, another target. GOFLAGS may not be empty: then what `go env -w`
	// has stored would count. With -mod=mod the go command adds what a module
	// file lacks, and writes go.sum.
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GO111MODULE=on", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	cmd.Stdout = io.MultiWriter(&stdout, output)
	cmd.Stderr = output
	// Compilers are children of the go command: cancelling ends the group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("go %s %s: %w; its last lines:\n%s", args[0], args[len(args)-1], err, lastLines(both.Bytes()))
	}
	return stdout.Bytes(), nil
}

// lockFile takes the lock that keeps builders apart. The kernel gives it up
// when the holder dies, so a killed build never blocks the next.
func lockFile(ctx context.Context, path string, log io.Writer) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	start, told := time.Now(), time.Time{}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if time.Since(told) >= heartbeat {
			told = time.Now()
			fmt.Fprintf(log, "rig: another process is building, waited %s for it\n", time.Since(start).Round(time.Second))
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for another process that builds: %w", context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// lastLines is the end of a program's output, for an error.
func lastLines(output []byte) string {
	lines := bytes.Split(bytes.TrimRight(output, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}

// syncLog lets several goroutines write to one log.
type syncLog struct {
	mu sync.Mutex
	w  io.Writer
}

// newLog makes a log safe to share; nil means none.
func newLog(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return &syncLog{w: w}
}

func (l *syncLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
