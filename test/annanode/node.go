package annanode

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode/zmtp"
)

// Node is a running process of Anna.
type Node struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	count  int64 // of joins, as the management server says
	kvs    []*kvs
	route  []*router
	closed chan struct{}
}

// ErrDeparted is why a node of one thread that was told to depart is done; one of more
// crashes behind it.
var ErrDeparted = errors.New("the node has departed")

// ErrCrashed is why a node is done that the real one would have crashed.
var ErrCrashed = errors.New("crashed, as Anna does")

// Start runs a node. One that keeps keys waits for its seed, as long as ctx lasts,
// and for its management server; after that it listens and is known to its peers
// and to routing as soon as they read its messages. ctx is for the start alone.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	n := &Node{cfg: cfg, closed: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	var err error
	switch cfg.Tier {
	case wire.Routing:
		err = n.startRouting()
	case wire.Memory, wire.Disk:
		err = n.startKVS(ctx)
	default:
		err = fmt.Errorf("no process of Anna is of tier %v", cfg.Tier)
	}
	go n.end()
	if err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *Node) startRouting() error {
	for tid := range n.cfg.Threads.Routing {
		t := newRouter(n, tid)
		n.route = append(n.route, t)
		if err := t.bindAll(); err != nil {
			return err
		}
	}
	for _, host := range n.cfg.Monitoring {
		n.route[0].send(address(host, wire.PortMonitorNotify, 0), []byte("join:ROUTING:"+n.cfg.Private+":NULL"))
	}
	for _, t := range n.route {
		n.wg.Go(t.loop)
	}
	return nil
}

func (n *Node) startKVS(ctx context.Context) error {
	answer, err := zmtp.Ask(ctx, address(n.cfg.Seed, wire.PortSeed, 0), []byte("join"))
	if err != nil {
		return fmt.Errorf("asking the seed %s for the members: %w", n.cfg.Seed, err)
	}
	members, err := wire.ParseMembership(answer)
	if err != nil {
		return fmt.Errorf("reading the members: %w", err)
	}
	if n.cfg.Management != "" {
		answer, err := zmtp.Ask(ctx, address(n.cfg.Management, managementRestarts, 0), []byte("restart:"+n.cfg.Private))
		if err != nil {
			return fmt.Errorf("asking the management server %s for the count of joins: %w", n.cfg.Management, err)
		}
		if n.count, err = strconv.ParseInt(strings.TrimSpace(string(answer)), 10, 32); err != nil {
			return fmt.Errorf("%w: the count of joins is %q: %w", ErrCrashed, answer, err)
		}
	}
	for tid := range n.cfg.threads() {
		t := newKVS(n, tid)
		n.kvs = append(n.kvs, t)
		if err := t.bindAll(); err != nil {
			return err
		}
	}
	for _, t := range n.kvs {
		t.start(members, n.count)
	}
	for _, t := range n.kvs {
		n.wg.Go(t.loop)
	}
	return nil
}

// Config is what the node was started with, with the defaults filled in.
func (n *Node) Config() Config { return n.cfg }

// Server is the node as members have it.
func (n *Node) Server() wire.Server { return wire.Server{Public: n.cfg.Public, Private: n.cfg.Private} }

// Done is closed when the node has departed, crashed or was closed, and its ports are
// free; Err tells which.
func (n *Node) Done() <-chan struct{} { return n.closed }

// Err is ErrDeparted, ErrCrashed, or context.Canceled after Close.
func (n *Node) Err() error { return context.Cause(n.ctx) }

// Close kills the node: nothing is handed over, nobody is told.
func (n *Node) Close() {
	n.cancel(nil)
	<-n.closed
}

// end frees the ports of a node that is done.
func (n *Node) end() {
	<-n.ctx.Done()
	n.wg.Wait()
	for _, a := range n.actors() {
		a.close()
	}
	close(n.closed)
}

// die is a crash.
func (n *Node) die(why string) {
	n.cfg.Log.Error("Anna crashes here: " + why)
	n.cancel(fmt.Errorf("%w: %s", ErrCrashed, why))
}

// crashEmptyKey is what an empty key does to a node: it looks at the first part of
// no parts.
func (n *Node) crashEmptyKey() { n.die("a request for the empty key") }

// threadDone ends the node when those threads have departed that Anna waits for: it does
// so by numbers that are one too high, and so crashes at the last of them, and never waits
// for thread 1 (hydro-project/anna src/kvs/server.cpp, main).
func (n *Node) threadDone() {
	for _, t := range n.kvs {
		if t.tid != 1 && !t.gone.Load() {
			return
		}
	}
	if len(n.kvs) > 1 {
		n.die("it waits for a thread that there is not")
	}
	n.cancel(ErrDeparted)
}
