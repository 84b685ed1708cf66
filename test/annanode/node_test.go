package annanode

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// The counters that tests of clients assert.
func TestStats(t *testing.T) {
	c := startCluster(t, ClusterConfig{})
	node := c.Nodes[0]
	at := address(node.Server().Public, wire.PortRequest, 0)
	for i := range 3 {
		k := newTalker(t, freeHost(t))
		k.request(at, wire.Put, values(40)[i*10:i*10+10]...)
		k.one(at, wire.Get, wire.Tuple{Key: keyNumber(0)})
		k.one(at, wire.Put, wire.Tuple{Key: keyNumber(0), Lattice: wire.TypeSet, Payload: set("a")})
		k.lookup(c.RoutingHosts()[0], keyNumber(0))
	}
	m := node.Stats().Max()
	if m.ResponseAddresses != 3 || m.MaxOutstanding != 10 || m.MaxPending != 10 || m.Outstanding != 0 || m.Refused != 3 || m.Gets < 3 || m.Puts < 33 {
		t.Errorf("%+v", m)
	}
	if m := c.Routing[0].Stats().Max(); m.ResponseAddresses != 3 || m.Lookups != 3 || m.MaxOutstanding != 1 {
		t.Errorf("routing: %+v", m)
	}
}

func TestFreeze(t *testing.T) {
	for _, freeze := range []bool{true, false} {
		c := startCluster(t, ClusterConfig{Freeze: freeze})
		at := address(c.Nodes[0].Server().Public, wire.PortRequest, 0)
		k := newTalker(t, freeHost(t))
		all := values(2 * (deadlock + 1))
		// As many as a client may have outstanding, twice.
		for part := range slices.Chunk(all[:800], 400) {
			k.request(at, wire.Put, part...)
		}
		r := wire.KeyRequest{Kind: wire.Put, Tuples: all[800:], ResponseAddress: address(k.host, talkKeys, 0), ID: "too many"}
		k.send(at, r.Append(nil))
		wait := patience
		if freeze {
			eventually(t, "the thread hangs", func() bool { return c.Nodes[0].Stats().Max().Hung })
			wait = soon
		}
		if served := k.try(at, keyNumber(0), wait); served == freeze {
			t.Errorf("freeze %v: served after too many tuples: %v", freeze, served)
		}
		if m := c.Nodes[0].Stats().Max(); m.Hung != freeze || m.MaxOutstanding != len(all)-800 {
			t.Errorf("freeze %v: %+v", freeze, m)
		}
	}
}

func TestLoadAndEach(t *testing.T) {
	c := startCluster(t, ClusterConfig{Memory: 3, Threads: Threads{Memory: 2}})
	all := values(500)
	if n := c.Load(slices.Values(all)); n != len(all) {
		t.Fatalf("%d of %d are loaded", n, len(all))
	}
	k := newTalker(t, freeHost(t))
	if n := count(t, k, c.RoutingHosts()[0], all); n != len(all) {
		t.Errorf("%d of %d are served", n, len(all))
	}
	seen := map[string]bool{}
	for _, n := range c.Nodes {
		for tuple := range n.Each() {
			seen[tuple.Key] = true
			if got, ok := n.Get(tuple.Key); !ok || string(got.Payload) != string(tuple.Payload) {
				t.Errorf("%+v, %v", got, ok)
			}
		}
	}
	if len(seen) != len(all) {
		t.Errorf("%d of %d are there", len(seen), len(all))
	}
}

func TestJoinWithoutDefect(t *testing.T) {
	c := startCluster(t, ClusterConfig{NoJoinDefect: true, Threads: Threads{Memory: 2}})
	all := values(1000)
	c.Load(slices.Values(all))
	if _, err := c.Add(t.Context(), wire.Memory); err != nil {
		t.Fatal(err)
	}
	k := newTalker(t, freeHost(t))
	eventually(t, "all keys are served", func() bool { return count(t, k, c.RoutingHosts()[0], all) == len(all) })
}

// A node that is killed stays a member; one at its address has no keys, and gets
// those with another replica when it says that it has joined more often.
func TestKilledNode(t *testing.T) {
	c := startCluster(t, ClusterConfig{Memory: 2, Replication: Replication{Memory: 2}})
	all := values(40)
	c.Load(slices.Values(all))
	k := newTalker(t, freeHost(t))
	dead := c.Nodes[0]
	dead.Close()
	if err := dead.Err(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	w := &nodeWorld{c: c}
	if m := servers(t, k, w, wire.Memory); len(m) != 2 {
		t.Errorf("members: %v", m)
	}
	cfg := dead.Config()
	cfg.Management = freeHost(t)
	again, err := c.AddAt(t.Context(), wire.Memory, cfg.Private)
	if err != nil {
		t.Fatal(err)
	}
	has := func() (n int) {
		for range again.Each() {
			n++
		}
		return n
	}
	if n := has(); n != 0 {
		t.Errorf("the new node has %d keys", n)
	}
	other := c.Nodes[1].Server()
	k.send(address(other.Private, wire.PortJoin, 0), []byte(wire.PeerMessage(wire.JoinMessage(wire.Memory, again.Server(), 1))))
	eventually(t, "the new node has all keys", func() bool { return has() == len(all) })
}

// std::hash<std::string> of libstdc++ on 64 bits.
func TestHash(t *testing.T) {
	for text, want := range map[string]uint64{
		"":                    6142509188972423790,
		"a":                   4993892634952068459,
		"12345678":            10113836418918046885,
		"GLOBAL10.0.0.1:0_17": 14276470525237256544,
	} {
		if got := hash(text); got != want {
			t.Errorf("hash of %q: %d, want %d", text, got, want)
		}
	}
}

func TestFreeHosts(t *testing.T) {
	hosts, err := FreeHosts(20)
	if err != nil {
		t.Fatal(err)
	}
	if len(hosts) != 20 || len(slices.Compact(slices.Sorted(slices.Values(hosts)))) != 20 {
		t.Errorf("%v", hosts)
	}
}

// TestDepartThreads: a node of two threads that is told to depart as Anna means it loses the
// keys of thread 1, and crashes.
func TestDepartThreads(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, spec{Threads{2, 1, 1}, Replication{1, 0, 1}}).(*nodeWorld)
	k := newTalker(t, w.client())
	first := w.add(t, wire.Memory)
	w.add(t, wire.Memory)
	all := values(200)
	fill(t, k, w.routing(), all)
	departing(t, k, first)(0)
	node := w.c.Nodes[0]
	eventually(t, "the node crashes", func() bool { return errors.Is(node.Err(), ErrCrashed) })
	if n := count(t, k, w.routing(), all); n == 0 || n == len(all) {
		t.Errorf("%d of %d keys are there", n, len(all))
	}
}
