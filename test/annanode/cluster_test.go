package annanode

import (
	"testing"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

func TestCluster(t *testing.T) {
	c := startCluster(t, ClusterConfig{Routing: 2, Memory: 3, Threads: Threads{Memory: 2, Routing: 2}})
	k := newTalker(t, freeHost(t))
	routing := c.RoutingHosts()
	owners := map[string]bool{}
	for i := range 200 {
		key := keyNumber(i)
		at := k.owner(routing[i%2], key)
		owners[at] = true
		if got := k.one(at, wire.Put, wire.Tuple{Key: key, Lattice: wire.TypeLWW, Payload: lww(1, key)}); got.Error != 0 || got.Lattice != wire.TypeLWW {
			t.Fatalf("%s: %+v", key, got)
		}
		got := k.one(at, wire.Get, wire.Tuple{Key: key})
		if string(got.Payload) != string(lww(1, key)) {
			t.Fatalf("%s: %+v", key, got)
		}
	}
	if len(owners) != 6 {
		t.Errorf("200 keys are spread over %d threads: %v", len(owners), owners)
	}
	// All lists together name each key once.
	eventually(t, "200 keys are listed", func() bool {
		listed := map[string]int{}
		for _, n := range c.Nodes {
			for tid := range 2 {
				name := wire.SizeKey(n.Server(), tid, wire.Memory)
				got := k.one(k.owner(routing[0], name), wire.Get, wire.Tuple{Key: name})
				v, err := wire.ParseLWW(got.Payload)
				if err != nil {
					t.Fatal(err)
				}
				for size, err := range wire.KeySizes(v.Value) {
					if err != nil {
						t.Fatal(err)
					}
					listed[string([]byte(size.Key))]++
				}
			}
		}
		for key, n := range listed {
			if n != 1 {
				t.Fatalf("%s is listed %d times", key, n)
			}
		}
		return len(listed) == 200
	})
	for _, n := range c.Nodes {
		if m := n.Stats().Max(); m.ResponseAddresses != 1 || m.Outstanding != 0 || m.MaxOutstanding == 0 {
			t.Errorf("%s: %+v", n.Server().Private, m)
		}
	}
}
