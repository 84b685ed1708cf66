package annanode

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// FreeHosts finds n addresses of the loopback network on which none of Anna's ports
// is taken. Somebody may take them before they are used; 16 million others are left.
func FreeHosts(n int) ([]string, error) {
	var hosts []string
	for range 100 * n {
		if len(hosts) == n {
			return hosts, nil
		}
		host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(255), 1+rand.IntN(250))
		if free(host) {
			hosts = append(hosts, host)
		}
	}
	if len(hosts) == n {
		return hosts, nil
	}
	return nil, errors.New("no free addresses of the loopback network: this needs one where all of 127.0.0.0/8 is local, as on Linux")
}

func free(host string) bool {
	for _, port := range []int{wire.PortRequest, wire.PortSeed, wire.PortMonitorNotify} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

// ClusterConfig is a cluster on this machine.
type ClusterConfig struct {
	Routing, Memory, Disk int // nodes; at least one of the first two each
	Threads               Threads
	Replication           Replication
	Root                  func(host string) string // of a disk node's directories
	Report, Gossip        time.Duration
	NoJoinDefect, Freeze  bool
	Log                   *slog.Logger
}

// Cluster is a cluster of nodes in this process.
type Cluster struct {
	Config  ClusterConfig
	Routing []*Node
	Nodes   []*Node // of the memory and the disk tier, also those that are closed
}

// StartCluster starts routing, then memory, then disk nodes, and waits until all of
// them know all.
func StartCluster(ctx context.Context, cfg ClusterConfig) (*Cluster, error) {
	c := &Cluster{Config: cfg}
	hosts, err := FreeHosts(max(1, cfg.Routing))
	if err != nil {
		return nil, err
	}
	for _, host := range hosts {
		n, err := Start(ctx, c.node(wire.Routing, host))
		if err != nil {
			c.Close()
			return nil, err
		}
		c.Routing = append(c.Routing, n)
	}
	for tier, count := range map[wire.Tier]int{wire.Memory: max(1, cfg.Memory), wire.Disk: cfg.Disk} {
		for range count {
			if _, err := c.Add(ctx, tier); err != nil {
				c.Close()
				return nil, err
			}
		}
	}
	return c, nil
}

func (c *Cluster) node(tier wire.Tier, host string) Config {
	cfg := Config{
		Tier: tier, Private: host, Bind: host,
		Threads: c.Config.Threads, Replication: c.Config.Replication,
		Report: c.Config.Report, Gossip: c.Config.Gossip,
		NoJoinDefect: c.Config.NoJoinDefect, Freeze: c.Config.Freeze, Log: c.Config.Log,
	}
	if tier == wire.Routing {
		return cfg
	}
	for _, r := range c.Routing {
		cfg.Routing = append(cfg.Routing, r.cfg.Private)
	}
	cfg.Seed = cfg.Routing[0]
	if tier == wire.Disk && c.Config.Root != nil {
		cfg.Root = c.Config.Root(host)
	}
	return cfg
}

// Add starts one more node and waits until all know it.
func (c *Cluster) Add(ctx context.Context, tier wire.Tier) (*Node, error) {
	hosts, err := FreeHosts(1)
	if err != nil {
		return nil, err
	}
	return c.AddAt(ctx, tier, hosts[0])
}

// AddAt is Add on an address, such as that of a node that was closed.
func (c *Cluster) AddAt(ctx context.Context, tier wire.Tier, host string) (*Node, error) {
	n, err := Start(ctx, c.node(tier, host))
	if err != nil {
		return nil, err
	}
	if tier == wire.Routing {
		c.Routing = append(c.Routing, n)
		return n, nil
	}
	c.Nodes = append(c.Nodes, n)
	return n, c.Wait(ctx)
}

// RoutingHosts are what a client is given.
func (c *Cluster) RoutingHosts() []string {
	var hosts []string
	for _, r := range c.Routing {
		hosts = append(hosts, r.cfg.Private)
	}
	return hosts
}

// Wait waits until every thread that runs knows all nodes that run.
func (c *Cluster) Wait(ctx context.Context) error {
	for {
		if c.settled() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until all nodes know each other: %w", ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (c *Cluster) settled() bool {
	for _, a := range append(c.Nodes[:len(c.Nodes):len(c.Nodes)], c.Routing...) {
		if a.ctx.Err() != nil {
			continue
		}
		for _, b := range c.Nodes {
			if b.ctx.Err() == nil && !a.knows(b) {
				return false
			}
		}
	}
	return true
}

// knows tells whether all threads of a node know another.
func (n *Node) knows(other *Node) bool {
	all := true
	check := func(v *view) {
		found := false
		for _, m := range v.nodes[other.cfg.Tier].members {
			found = found || m != nil && m.Private == other.cfg.Private
		}
		all = all && found
	}
	for _, t := range n.kvs {
		all = t.do(func() { check(t.view) }) && all
	}
	for _, t := range n.route {
		done := make(chan struct{})
		t.post(t.ctx, item{call: func() { defer close(done); check(t.view) }})
		select {
		case <-done:
		case <-t.ctx.Done():
			return false
		}
	}
	return all
}

// Load stores values with their owners, as Node.Load.
func (c *Cluster) Load(tuples iter.Seq[wire.Tuple]) int {
	taken := 0
	for part := range batches(tuples, 4096) {
		for _, n := range c.Nodes {
			taken += n.Load(func(yield func(wire.Tuple) bool) {
				for _, tuple := range part {
					if !yield(tuple) {
						return
					}
				}
			})
		}
	}
	return taken
}

// Close kills all nodes.
func (c *Cluster) Close() {
	for _, n := range append(c.Nodes, c.Routing...) {
		n.Close()
	}
}
