package client

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

const (
	// MaxOutstanding tuples a thread are safe; a thousand are not.
	MaxOutstanding = 800
	// MinDeadline is how long a request waits at least.
	MinDeadline = 10 * time.Second

	defaultDeadline = 15 * time.Second
	defaultTries    = 3
	// unproven is how many tuples a thread has outstanding at most before its first answer;
	// a request with more goes alone.
	unproven = 32
	// closeWait is how long Close waits for answers that are on their way.
	closeWait = 2 * time.Second
)

// Options of a Client.
type Options struct {
	// Listen is host:port (an empty host: all) for answers to GETs and PUTs; those to
	// lookups come to the next port. Port 0 is any.
	Listen string
	// Advertise is the host servers connect to: a name or an IPv4 address, the same for
	// the process's life, and best for the node's.
	Advertise string
	// Routing are hosts, dialled at 6350 and at 6450 plus the thread.
	Routing []string
	// RoutingThreads is threads.routing of Anna's configuration; 1 where it is 0.
	RoutingThreads int
	// Outstanding bounds PUTs and lookups, in tuples, over all threads: 800 and the
	// default over all clients together. GETs are bounded for each thread.
	Outstanding int
	// Deadline of one try, 10 s at least; 15 s where it is 0.
	Deadline time.Duration
	// Tries is how often a request is sent, 3 where it is 0.
	Tries int
	Log   *slog.Logger

	ports  ports         // tests have nodes on ports of their own
	hurry  time.Duration // tests need not wait for MinDeadline
	limits limits
}

// ports are where routing listens.
type ports struct{ seed, address int }

// limits are those times that tests shorten.
type limits struct {
	tick  time.Duration // between two looks at what is outstanding
	grace time.Duration // after a connection broke, for answers on another
	idle  time.Duration // until a connection without requests is closed
}

func (o *Options) complete() error {
	if err := wire.CheckHost(o.Advertise); err != nil {
		return fmt.Errorf("the host that servers answer to: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Deadline == 0 {
		o.Deadline = defaultDeadline
	}
	o.Deadline = max(o.Deadline, MinDeadline)
	if o.hurry > 0 {
		o.Deadline = o.hurry
	}
	if o.Tries < 1 {
		o.Tries = defaultTries
	}
	if o.RoutingThreads < 1 {
		o.RoutingThreads = 1
	}
	if o.Outstanding == 0 {
		o.Outstanding = MaxOutstanding
	}
	o.Outstanding = clamp(o.Outstanding)
	if o.ports == (ports{}) {
		o.ports = ports{wire.PortSeed, wire.PortAddress}
	}
	if o.limits == (limits{}) {
		o.limits = limits{200 * time.Millisecond, 5 * time.Second, 2 * time.Minute}
	}
	return nil
}

func clamp(outstanding int) int { return min(max(outstanding, 1), MaxOutstanding) }
