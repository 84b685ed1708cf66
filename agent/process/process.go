// Package process runs programs in groups of their own, as the first process of
// a container has to: it signals the whole group and collects what is left over.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Spec is a program to run.
type Spec struct {
	Path  string   // of the program
	Args  []string // without the program's name
	Env   []string
	Dir   string
	Extra []*os.File // inherited as descriptors 3, 4, …
}

// Process is a program that runs or has run.
type Process struct {
	PID    int
	done   chan struct{}
	status syscall.WaitStatus // valid once done is closed
}

// children are the processes whose end somebody waits for. One mutex covers
// starting and collecting, so that no end is seen before its process is known.
var children = struct {
	sync.Mutex
	reaping bool
	running map[int]*Process
}{running: map[int]*Process{}}

// start runs a program in a process group of its own with the given output.
func start(spec Spec, output *os.File) (*Process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	defer null.Close()
	attributes := &os.ProcAttr{
		Dir: spec.Dir, Env: spec.Env,
		Files: append([]*os.File{null, output, output}, spec.Extra...),
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	children.Lock()
	defer children.Unlock()
	started, err := os.StartProcess(spec.Path, append([]string{spec.Path}, spec.Args...), attributes)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	p := &Process{PID: started.Pid, done: make(chan struct{})}
	// Its end is collected here, by number; the handle is not needed.
	_ = started.Release()
	children.running[p.PID] = p
	if !children.reaping {
		go p.wait()
	}
	return p, nil
}

func (p *Process) wait() {
	var status syscall.WaitStatus
	for {
		pid, err := syscall.Wait4(p.PID, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid == p.PID {
			break
		}
	}
	children.Lock()
	defer children.Unlock()
	p.end(status)
}

// end is called with the lock held.
func (p *Process) end(status syscall.WaitStatus) {
	if children.running[p.PID] == p {
		delete(children.running, p.PID)
		p.status = status
		close(p.done)
	}
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Failed tells how the program ended: nil for status 0. It is only to be asked
// once Done is closed.
func (p *Process) Failed() error {
	switch {
	case p.status.Signaled():
		return fmt.Errorf("killed by signal %d (%v)", int(p.status.Signal()), p.status.Signal())
	case p.status.ExitStatus() != 0:
		return fmt.Errorf("exit status %d", p.status.ExitStatus())
	}
	return nil
}

// Signal sends a signal to all of the group. What outlives the program is
// reached too.
func (p *Process) Signal(number syscall.Signal) { _ = syscall.Kill(-p.PID, number) }

// Reap collects every process that ends, also those that others left to the
// first process of the container. It is for programs that start no process but
// by this package.
func Reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	children.Lock()
	children.reaping = true
	children.Unlock()
	go func() {
		collect()
		for range ended {
			collect()
		}
	}()
}

// collect takes all that have ended: several ends may come as one signal.
func collect() {
	children.Lock()
	defer children.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if p := children.running[pid]; p != nil {
			p.end(status)
		}
	}
}
