package adopted

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// ErrShort says that the node has too little memory for a backup's service.
var ErrShort = errors.New("the node is short of memory")

// ErrOver says that more memory was taken than is allowed.
var ErrOver = errors.New("it takes more memory than it may")

// Pressure keeps what is supervised from taking memory that the database or the node
// needs. The kubelet evicts pods when a node has about 100 MiB left (memory.available,
// k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1/defaults.go), and an adopted pod may be
// the one. Halt and Wait are for one goroutine.
type Pressure struct {
	Memory int64 // in bytes, what the container may take; 0 for no bound
	Log    *slog.Logger

	proc  string           // /proc
	now   func() time.Time // time.Now
	short bool             // as decided
	since time.Time        // from when it looks otherwise than decided; zero where it does not
}

// NewPressure looks at the node and the container that the program runs on.
func NewPressure(memory int64, log *slog.Logger) *Pressure {
	return &Pressure{Memory: memory, Log: log, proc: "/proc", now: time.Now}
}

// The least that a node has to have available: a twentieth of its memory, between two
// bounds in bytes. For what waits to come back it has to have twice as much.
const (
	share        = 20
	least        = 200 << 20
	most         = 1 << 30
	shortAfter   = 5 * time.Second // a moment's want is none
	relaxedAfter = time.Minute
)

func threshold(total int64) int64 { return min(max(total/share, least), most) }

// Halt tells why what runs is to be ended now; nil where it is not. A backup goes on while
// the node is short of memory, as to begin it again would take more, but not beyond what
// the container may take.
func (p *Pressure) Halt(backup bool) error {
	if taken := p.taken(); p.Memory > 0 && taken > p.Memory {
		return fmt.Errorf("%w: %d MiB of %d MiB (the limit of memory in annotation stategraft.io/sidecar-resources, then stategraft.io/adopt-renew)",
			ErrOver, taken>>20, p.Memory>>20)
	}
	if err := p.look(shortAfter); err != nil && !backup {
		return err
	}
	return nil
}

// Wait tells why nothing is to be started now; nil where it may.
func (p *Pressure) Wait() error { return p.look(0) }

func (p *Pressure) taken() int64 { return used(p.proc, os.Getpid()) }

// look decides anew whether the node is short of memory: after it has looked so for a
// while. What cannot be read says nothing.
func (p *Pressure) look(after time.Duration) error {
	total, available, err := meminfo(p.proc + "/meminfo")
	if err != nil {
		return nil
	}
	line := threshold(total)
	if p.short {
		line, after = 2*line, relaxedAfter
	}
	switch now := p.now(); {
	case available < line == p.short:
		p.since = time.Time{}
	case p.since.IsZero() && after > 0:
		p.since = now
	case after == 0 || now.Sub(p.since) >= after:
		p.short, p.since = !p.short, time.Time{}
		p.Log.Info("the node's memory", "short", p.short, "available_mib", available>>20, "total_mib", total>>20)
	}
	if p.short {
		line := threshold(total)
		return fmt.Errorf("%w: less than %d MiB are available; Medusa comes back when %d MiB have been for a minute", ErrShort, line>>20, 2*line>>20)
	}
	return nil
}
