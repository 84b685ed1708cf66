package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// killGrace is how long the kernel may take to end a killed process.
const killGrace = time.Minute

// stopGrace is how long a server may take to stop by itself. None has
// anything to save that a test would miss.
var stopGrace = 10 * time.Second

// process is a child in a process group of its own, with its output in a file
// and its number in another.
type process struct {
	name    string
	pid     int
	log     string // path
	pidFile string // path
	done    chan struct{}
	err     error // how it ended; to be read after done is closed
}

// startProcess runs path. The log is appended to. The kernel ends the child when
// this program ends in whatever way (Linux only).
func startProcess(name, path string, args []string, dir, log, pidFile string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttributes()

	p := &process{name: name, log: log, pidFile: pidFile, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The parent-death signal is sent when the thread that started the child
		// ends, not the program (prctl(2), PR_SET_PDEATHSIG). So that thread is
		// kept: it waits here for the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		out.Close()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			// Whatever it started itself ends with it. Now, since later the number
			// of its group may be that of another.
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.pid = cmd.Process.Pid
	if err := writePidFile(pidFile, p.pid, path); err != nil {
		_ = p.stop(context.Background())
		return nil, err
	}
	return p, nil
}

// ended tells whether the process is gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// failure describes a process that ended unasked.
func (p *process) failure() error {
	reason := "exit status 0"
	if p.err != nil {
		reason = p.err.Error()
	}
	return fmt.Errorf("%s ended (%s); the last lines of %s:\n%s", p.name, reason, filepath.Base(p.log), fileTail(p.log))
}

// stop ends the process and its group: politely at first, by force after
// stopGrace or once ctx is done. It answers an error only if something is left.
func (p *process) stop(ctx context.Context) error {
	if !p.ended() {
		_ = syscall.Kill(-p.pid, syscall.SIGTERM)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
	case <-time.After(stopGrace):
	}
	if !p.ended() {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
	select {
	case <-p.done:
	case <-time.After(killGrace):
		return fmt.Errorf("stopping %s: process %d does not end", p.name, p.pid)
	}
	if err := os.Remove(p.pidFile); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	return nil
}

// kill ends the process and its group at once, as the kernel does when the
// program that started it is killed.
func (p *process) kill() error {
	err := syscall.Kill(-p.pid, syscall.SIGKILL)
	<-p.done
	return err
}

// fileTail is the end of a log, or why there is none.
func fileTail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return lastLines(text)
}
