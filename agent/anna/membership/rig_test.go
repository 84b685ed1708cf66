package membership

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// cluster is a simulated one: what each routing node knows, and who hears what.
type cluster struct {
	mutex   sync.Mutex
	members map[string]wire.Membership // by routing host; none: it does not answer
	heard   []string                   // "host:port message"
	deaf    map[string]bool            // hosts that take nothing
	names   map[string][]string        // DNS; an empty list is a failing server
	listen  map[string]bool            // hosts whose port 6200 is open
}

var errDeaf = errors.New("connection refused")

func (c *cluster) Members(_ context.Context, host string) (wire.Membership, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	m, ok := c.members[host]
	if !ok {
		return m, errDeaf
	}
	return m, nil
}

func (c *cluster) Push(_ context.Context, host string, port int, message string) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.deaf[host] {
		return errDeaf
	}
	c.heard = append(c.heard, fmt.Sprintf("%s:%d %s", host, port, message))
	return nil
}

func (c *cluster) LookupHost(_ context.Context, name string) ([]string, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	found, ok := c.names[name]
	switch {
	case !ok:
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	case len(found) == 0:
		return nil, &net.DNSError{Err: "server misbehaving", Name: name, IsTemporary: true}
	}
	return found, nil
}

func (c *cluster) listens(_ context.Context, host string, _ int) bool { return c.listen[host] }

// told is what was heard since it was asked for last.
func (c *cluster) told() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	heard := c.heard
	c.heard = nil
	return heard
}

func hosts(names ...string) Hosts {
	return func(context.Context) ([]string, error) { return names, nil }
}

func discard() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func server(name string) wire.Server { return wire.Server{Public: name, Private: name} }

// tiers are members: memory first, then disk.
func tiers(memory, disk []wire.Server) wire.Membership {
	return wire.Membership{Tiers: []wire.TierServers{{Tier: wire.Memory, Servers: memory}, {Tier: wire.Disk, Servers: disk}}}
}

func keeping(k Keep) func() Keep { return func() Keep { return k } }
