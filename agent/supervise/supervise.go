// Package supervise runs Medusa's gRPC service as the first process of its
// container. The container must not end when Medusa does: the database's pod
// would become unready. And it must end when it is asked to: the image's own
// entry point ignores SIGTERM, so every deletion would last the whole grace
// period.
package supervise

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/medusa"
	"github.com/stategraft/stategraft/agent/process"
)

// Config is how Medusa is run.
type Config struct {
	// Prepare completes the configuration and tells the command; its error says
	// what is waited for. It is also called before a restart, while Medusa runs.
	Prepare func() (process.Spec, error)
	// Hold, where set, returns when Medusa may be started for the first time, or
	// when the context ends.
	Hold func(ctx context.Context)
	// Halt, where set, is asked at each look while Medusa runs: an error ends it, also in
	// the middle of a backup, and it is started again when Prepare allows that.
	Halt func(backup bool) error
	// Watch are the files that Medusa reads at its start only.
	Watch     []string
	Marker    string // exists while a backup is running
	StatePath string
	Secrets   *event.Secrets
	// Hidden are the files that the Secrets are learnt from at each start.
	Hidden []string

	StopLimit time.Duration // for which a running backup delays the end
	Poll      time.Duration // between two looks at configuration and marker
	First     time.Duration // before the first restart; doubled each time
	Longest   time.Duration // between two restarts
	Steady    time.Duration // after which a death counts as the first again
	Log       *slog.Logger
}

type supervisor struct {
	Config
	state State
	wait  time.Duration // before the next restart
}

// Run supervises until the context ends.
func Run(ctx context.Context, c Config) {
	s := &supervisor{Config: c}
	if c.Hold != nil {
		s.tell(func(s *State) { s.State, s.Reason = Waiting, "the database starts first" })
		c.Hold(ctx)
	}
	for ctx.Err() == nil {
		spec, ok := s.ready(ctx)
		if !ok {
			break
		}
		s.once(ctx, spec)
	}
	s.tell(func(s *State) { *s = State{State: Stopping, Restarts: s.Restarts} })
	s.Log.Info("stopped")
}

// ready waits until there is something to run.
func (s *supervisor) ready(ctx context.Context) (process.Spec, bool) {
	said := ""
	for {
		spec, err := s.Prepare()
		if err == nil {
			return spec, true
		}
		state := Waiting
		if errors.Is(err, medusa.ErrNone) || errors.Is(err, medusa.ErrNotServed) {
			state = Degraded
		}
		s.tell(func(s *State) { s.State, s.Reason, s.PID, s.Backup = state, err.Error(), 0, false })
		if said != err.Error() {
			said = err.Error()
			s.Log.Error(state+": backups do not work", "error", said)
		}
		if !pause(ctx, s.Poll) {
			return spec, false
		}
	}
}

// once runs Medusa until it ends by itself, has to be restarted, or the context
// ends.
func (s *supervisor) once(ctx context.Context, spec process.Spec) {
	s.unmark()
	s.Secrets.Learn(s.Hidden...)
	watched := s.digest()
	tail := process.Tail{Size: 5}
	p, complete, err := process.Lines(spec, func(line string) {
		line = s.Secrets.Hide(line)
		tail.Add(line)
		s.pass(line)
	})
	if err != nil {
		s.died(ctx, 0, err.Error())
		return
	}
	start := time.Now()
	s.Log.Info("started Medusa", "pid", p.PID)
	s.tell(func(s *State) { s.State, s.Reason, s.PID = Running, "", p.PID })
	tick := time.NewTicker(s.Poll)
	defer tick.Stop()
	for {
		select {
		case <-p.Done():
			p.Signal(syscall.SIGKILL) // what it left behind
			<-complete
			s.died(ctx, time.Since(start), fmt.Sprintf("%v: %s", ended(p), tail.String()))
			return
		case <-ctx.Done():
			s.stop(p)
			<-complete
			return
		case <-tick.C:
			if err := s.halt(); err != nil {
				s.Log.Warn("stopping Medusa", "reason", err.Error(), "backup", s.backup())
				p.Stop(process.Grace)
				<-complete
				s.died(ctx, time.Since(start), "stopped: "+err.Error())
				return
			}
			if s.look(watched) {
				s.Log.Info("restarting Medusa: its configuration has changed")
				p.Stop(process.Grace)
				<-complete
				return
			}
		}
	}
}

// halt tells why Medusa has to end now.
func (s *supervisor) halt() error {
	if s.Halt == nil {
		return nil
	}
	return s.Halt(s.backup())
}

// look tells of a running backup, and whether Medusa is to be restarted: not in the
// middle of one, and not for a configuration that it could not run with. Medusa
// does not answer whether a backup may begin, so one that begins right now is
// interrupted, and reported as failed.
func (s *supervisor) look(watched [sha256.Size]byte) bool {
	backup, reason, restart := s.backup(), "", false
	if !backup && s.digest() != watched {
		if _, err := s.Prepare(); err != nil {
			reason = "runs with its old configuration: " + err.Error()
		}
		restart = reason == ""
	}
	if reason != "" && reason != s.state.Reason {
		s.Log.Warn("Medusa " + reason)
	}
	s.tell(func(s *State) { s.Backup, s.Reason = backup, reason })
	return restart
}

func ended(p *process.Process) error {
	if err := p.Failed(); err != nil {
		return err
	}
	return errors.New("exit status 0")
}

// died waits before the next start.
func (s *supervisor) died(ctx context.Context, lasted time.Duration, reason string) {
	if s.wait == 0 || lasted >= s.Steady {
		s.wait = s.First
	} else {
		s.wait = min(2*s.wait, s.Longest)
	}
	s.Log.Error("Medusa ended and is started again", "reason", reason, "lasted_seconds", lasted.Seconds(), "wait_seconds", s.wait.Seconds())
	s.tell(func(s *State) {
		s.State, s.Reason, s.PID, s.Backup, s.Restarts = Backoff, reason, 0, false, s.Restarts+1
	})
	pause(ctx, s.wait)
}

// stop ends Medusa: at once, or when the running backup is done. SIGTERM ends
// Python in the middle of a backup, so it is held back as long as the limit
// allows.
func (s *supervisor) stop(p *process.Process) {
	deadline := time.Now().Add(s.StopLimit)
	if s.backup() {
		s.Log.Info("a backup is running: waiting for it", "limit_seconds", s.StopLimit.Seconds())
	}
	for s.backup() {
		if time.Now().After(deadline) {
			s.Log.Warn("the backup is interrupted: it did not end in time")
			break
		}
		s.tell(func(s *State) { s.State, s.Backup = Stopping, true })
		select {
		case <-p.Done():
		case <-time.After(min(s.Poll, 100*time.Millisecond)):
			continue
		}
		break
	}
	p.Stop(process.Grace)
	s.unmark()
}

func (s *supervisor) backup() bool {
	_, err := os.Stat(s.Marker)
	return err == nil
}

// unmark removes the mark of a backup that nobody makes any more.
func (s *supervisor) unmark() {
	if s.backup() {
		if err := os.Remove(s.Marker); err != nil {
			s.Log.Warn("the mark of an interrupted backup cannot be removed", "error", err.Error())
			return
		}
		s.Log.Warn("a backup was interrupted: its mark is removed")
	}
}

// digest tells whether one of the watched files has changed. Their content
// counts: a ConfigMap or Secret is replaced by swapping symlinks.
func (s *supervisor) digest() [sha256.Size]byte {
	sum := sha256.New()
	for _, path := range s.Watch {
		content, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %v %d\n", path, err == nil, len(content))
		sum.Write(content)
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// pass writes a line of Medusa's as one of ours.
func (s *supervisor) pass(line string) {
	level, message := medusa.Line(line)
	number := slog.LevelInfo
	switch level {
	case "DEBUG":
		number = slog.LevelDebug
	case "WARNING":
		number = slog.LevelWarn
	case "ERROR", "CRITICAL":
		number = slog.LevelError
	}
	s.Log.Log(context.Background(), number, message, "from", "medusa")
}

func pause(ctx context.Context, length time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(length):
		return true
	}
}
