// Package client talks to Anna the way that does it no harm. A KVS thread is easily
// stopped for good by a client, so these hold, whatever the caller does:
//
//   - A thread never has more than 800 tuples of ours outstanding, and all threads
//     together no more than Options.Outstanding PUTs and lookups: a thread asks for the
//     replication of every key that is new to it, with a send that blocks, and with a
//     thousand of them it waits for itself.
//   - Answers are read as they come, also those nobody waits for any more: a thread
//     blocks, for all its clients, on a thousand that are not. What is not answered in
//     time goes on to count as outstanding, until the thread has answered something
//     that was sent later, or is gone.
//   - A thread that has not answered yet has only a few outstanding, since it may not
//     be able to reach us.
//   - All answers come to two fixed addresses: a server never closes the socket it has
//     made for one.
//   - A request waits 10 s at least: a thread with many keys stands still for seconds.
//   - A lookup has one key: with more, all but one may be dropped.
//   - Tuples are counted, not responses: a server may answer in any number of them.
//   - A PUT is done if it is answered with the type that was sent, and only then.
//
// Requests have ids no other run has, so that late answers of an earlier one are known.
//
// # Pipelining
//
// GetAsync, PutAsync and OwnersAsync send and return; they wait only where a bound is
// reached. Keep a window of them and Wait for the oldest: 8 GETs of 100 keys fill a
// thread's bound. A thread that is dead or stuck delays only requests to itself, so use
// a goroutine a thread.
package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

var (
	// ErrNoServers says that routing knows no node that owns a key: no KVS node has joined,
	// or routing has been restarted and knows of none.
	ErrNoServers = errors.New("routing knows no KVS node")
	// ErrNoRouting says that there is no routing node to ask.
	ErrNoRouting = errors.New("no routing node is known: its Service has no addresses")
	// ErrTimeout says that nobody answered after all tries.
	ErrTimeout = errors.New("no answer after all tries")
	// ErrClosed is the answer of a client that has been closed.
	ErrClosed = errors.New("the client of Anna is closed")
)

// Client is safe for concurrent use.
type Client struct {
	o        Options
	prefix   string
	keysAt   string // response addresses
	ownersAt string
	shared   *bound // PUTs and lookups

	ctx       context.Context
	cancel    context.CancelFunc
	listeners []*zmtp.Listener
	wait      sync.WaitGroup

	mu      sync.Mutex
	closing bool
	routing []string
	peers   map[string]*peer
	pending map[uint64]*attempt
	last    uint64
	arrives time.Time // a piece of a large answer came
	stats   Stats
}

// New binds both response ports and reads them from then on, until the context ends
// or Close is called. Make it early: the answers to an earlier run are waiting.
func New(ctx context.Context, o Options) (*Client, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("client of Anna: %w", err)
	}
	c := &Client{
		o: o, prefix: randomPrefix(), shared: newBound(o.Outstanding),
		peers: map[string]*peer{}, pending: map[uint64]*attempt{},
	}
	if err := c.bind(); err != nil {
		return nil, fmt.Errorf("client of Anna: %w", err)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.SetRouting(o.Routing)
	c.wait.Add(1)
	go c.watch()
	context.AfterFunc(ctx, func() { c.Close() })
	return c, nil
}

// randomPrefix keeps the ids of this run apart from those of all others.
func randomPrefix() string {
	var b [6]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:]) + "-"
}

// bind opens the two ports, which are neighbours.
func (c *Client) bind() error {
	host, text, err := net.SplitHostPort(c.o.Listen)
	if err != nil {
		return fmt.Errorf("listen on %q: not host:port: %w", c.o.Listen, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return fmt.Errorf("listen on %q: %q is no port", c.o.Listen, text)
	}
	for tries := 0; ; tries++ {
		err := c.bindPair(host, int(port))
		if err == nil || port != 0 || tries == 20 {
			return err
		}
	}
}

func (c *Client) bindPair(host string, port int) error {
	keys, err := zmtp.Listen(net.JoinHostPort(host, strconv.Itoa(port)), zmtp.Pull, c.readKeys)
	if err != nil {
		return fmt.Errorf("response port: %w", err)
	}
	port = keys.Port()
	owners, err := zmtp.Listen(net.JoinHostPort(host, strconv.Itoa(port+1)), zmtp.Pull, c.readOwners)
	if err != nil {
		keys.Close()
		return fmt.Errorf("response port: %w", err)
	}
	c.listeners = []*zmtp.Listener{keys, owners}
	c.keysAt = "tcp://" + net.JoinHostPort(c.o.Advertise, strconv.Itoa(port))
	c.ownersAt = "tcp://" + net.JoinHostPort(c.o.Advertise, strconv.Itoa(port+1))
	return nil
}

// SetRouting replaces the routing hosts. One that Anna cannot handle is left out, with
// a line in the log.
func (c *Client) SetRouting(hosts []string) {
	good := make([]string, 0, len(hosts))
	for _, host := range hosts {
		if err := wire.CheckHost(host); err != nil {
			c.o.Log.Warn("a routing node is left out", "err", err)
			continue
		}
		good = append(good, host)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.routing = good
}

func (c *Client) routingHosts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.routing
}

// SetOutstanding replaces the bound on PUTs and lookups, 1 to 800 tuples: 800 divided
// by the clients there are.
func (c *Client) SetOutstanding(n int) {
	n = clamp(n)
	c.shared.set(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.o.Outstanding = n
	for _, p := range c.peers {
		p.share.set(share(n))
	}
}

// share is how much of the bound over all threads one of them may have, so that one
// that is stuck does not take all of it.
func share(outstanding int) int { return max(1, outstanding/2) }

// Close ends all requests with ErrClosed and stops listening, after it has waited a
// little for answers that are on their way.
func (c *Client) Close() error {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	c.mu.Unlock()
	if first {
		for end := time.Now().Add(closeWait); c.awaits() && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		c.cancel()
	}
	var err error
	for _, l := range c.listeners {
		if e := l.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
			err = e
		}
	}
	c.wait.Wait()
	return err
}

// awaits tells whether an answer may still come.
func (c *Client) awaits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.pending {
		if a.state == sent {
			return true
		}
	}
	return false
}
