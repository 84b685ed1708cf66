package rigged

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	free "github.com/stategraft/stategraft/test/ports"
)

const (
	loopback   = "127.0.0.1"
	readyLimit = 3 * time.Minute // how long a process may take to be ready
	stopGrace  = 2 * time.Minute // how long it may take to end by itself, drain included
)

// process is one of our programs' processes. It can be stopped and started
// again, on the same ports.
type process struct {
	name    string // for messages, with its article
	program string
	args    func() []string
	// Ports of the metrics and of the health probes.
	metrics, health int

	mu   sync.Mutex
	log  *os.File // everything that every process wrote; nil before the first
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// MetricsURL is where its metrics are read.
func (p *process) MetricsURL() string { return "http://" + address(p.metrics) + "/metrics" }

// common are the arguments of all our programs.
func (p *process) common(kubeconfig string) []string {
	return []string{"--kubeconfig", kubeconfig,
		"--metrics-bind-address", address(p.metrics), "--health-probe-bind-address", address(p.health)}
}

// startOnFreePorts picks ports and starts. A port that was free may be taken
// before the process gets to it, so it tries again.
func (p *process) startOnFreePorts(ctx context.Context, more ...*int) error {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		if err := pickPorts(append(more, &p.metrics, &p.health)...); err != nil {
			return err
		}
		err := p.Start(ctx)
		if err == nil || attempt == attempts || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
	}
}

// Start starts the process and waits until it is ready.
func (p *process) Start(ctx context.Context) error {
	if p.Running() {
		return fmt.Errorf("starting %s: it runs already", p.name)
	}
	cmd := exec.Command(p.program, p.args()...)
	// In a cluster the Deployment says so.
	cmd.Env = append(os.Environ(), "POD_NAMESPACE="+homeNamespace)
	log, err := p.openLog()
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	done, started := make(chan struct{}), make(chan error)
	go func() {
		// The thread that starts the child is kept until it ends, as the kernel
		// ends the child with that thread (prctl(2), PR_SET_PDEATHSIG).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(done)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	p.mu.Lock()
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	if err := p.awaitReady(ctx, cmd, done); err != nil {
		return errors.Join(fmt.Errorf("%w; the last lines of its log:\n%s", err, p.tail()), p.Stop(context.WithoutCancel(ctx)))
	}
	return nil
}

func (p *process) awaitReady(ctx context.Context, cmd *exec.Cmd, done <-chan struct{}) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not done within %s", readyLimit))
	defer cancel()
	return poll(ctx, p.name+" to be ready", func() (bool, error) {
		select {
		case <-done:
			return false, fmt.Errorf("%s ended (%s)", p.name, cmd.ProcessState)
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address(p.health)+"/readyz", nil)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil {
			return false, nil // not listening yet
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
}

// Running tells whether the process runs.
func (p *process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Stop ends the process: politely, and by force after its grace or once ctx is
// done. Stopping twice is no error.
func (p *process) Stop(ctx context.Context) error {
	if !p.Running() {
		return nil
	}
	p.mu.Lock()
	process, done := p.cmd.Process, p.done
	p.mu.Unlock()
	_ = process.Signal(syscall.SIGTERM)
	select {
	case <-done:
		return p.endedWell()
	case <-ctx.Done():
	case <-time.After(stopGrace):
	}
	_ = process.Kill()
	select {
	case <-done:
		return fmt.Errorf("%s (process %d) had to be killed: it did not end within %s", p.name, process.Pid, stopGrace)
	case <-time.After(stopGrace):
		return fmt.Errorf("%s (process %d) does not end", p.name, process.Pid)
	}
}

// Kill ends the process with SIGKILL, as a crash does, and waits until it is
// gone. It can be started again.
func (p *process) Kill() error {
	if !p.Running() {
		return fmt.Errorf("killing %s: it does not run", p.name)
	}
	p.mu.Lock()
	process, done := p.cmd.Process, p.done
	p.mu.Unlock()
	if err := process.Kill(); err != nil {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-done
	return nil
}

// endedWell looks at how the process ended when it was asked to.
func (p *process) endedWell() error {
	p.mu.Lock()
	state := p.cmd.ProcessState
	p.mu.Unlock()
	if strings.Contains(p.Log(), "WARNING: DATA RACE") {
		return fmt.Errorf("%s has a data race; its log:\n%s", p.name, p.Log())
	}
	if !state.Success() {
		return fmt.Errorf("%s ended badly (%s); the last lines of its log:\n%s", p.name, state, p.tail())
	}
	return nil
}

// openLog makes the file that takes the process's output. It is one that the process
// writes to itself: what it wrote before it answered a request is there once the answer
// is, which through a pipe it would be a moment later.
func (p *process) openLog() (*os.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log != nil {
		return p.log, nil
	}
	f, err := os.CreateTemp("", "stategraft-rigged-*.log")
	if err != nil {
		return nil, fmt.Errorf("making a log: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // it lasts as long as it is open
	defer func() { _ = f.Close() }()
	// Several processes write to it, one after the other, and none over another's.
	if p.log, err = os.OpenFile(f.Name(), os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil, fmt.Errorf("making a log: %w", err)
	}
	return p.log, nil
}

// Log is everything that it wrote, over all its starts.
func (p *process) Log() string {
	p.mu.Lock()
	log := p.log
	p.mu.Unlock()
	if log == nil {
		return ""
	}
	text, err := io.ReadAll(io.NewSectionReader(log, 0, math.MaxInt64))
	if err != nil {
		return string(text) + err.Error()
	}
	return string(text)
}

// tail is the end of the log, for an error. A line for each time that we asked
// whether it is ready says nothing.
func (p *process) tail() string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimRight(p.Log(), "\n"), "\n"), func(line string) bool {
		return strings.Contains(line, "healthz check failed")
	})
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// pickPorts finds free ports.
func pickPorts(ports ...*int) error {
	first, err := free.Row(len(ports))
	for i, port := range ports {
		*port = first + i
	}
	return err
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
