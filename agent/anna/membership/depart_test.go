package membership

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// departing is a departer in a cluster of two memory nodes and one disk node, with its
// clock.
func departing() (*Departer, *cluster, *time.Time) {
	c := &cluster{
		members: map[string]wire.Membership{"127.0.0.1": tiers([]wire.Server{server("m-0"), server("m-1")}, []wire.Server{server("e-0")})},
		names:   map[string][]string{"routing": {"10.0.0.9"}, "memory": {"10.0.0.1"}, "disk": {"10.0.0.3"}, "m-0": {"10.0.0.1"}, "e-0": {"10.0.0.3"}},
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	return &Departer{
		Messenger: c, Resolver: c, Own: "routing", Memory: "memory", Disk: "disk",
		Routing: hosts("r-0", "r-1"), Monitoring: hosts("mon-0"), Listens: c.listens, Keep: keeping(Keep{}), After: time.Minute,
		Clock: func() time.Time { return now }, Log: discard(),
	}, c, &now
}

// TestDepart: a node that DNS does not know is departed after its time, everywhere, and
// its own routing node is the last to hear.
func TestDepart(t *testing.T) {
	d, c, now := departing()
	d.look(t.Context())
	*now = now.Add(59 * time.Second)
	d.look(t.Context())
	if told := c.told(); told != nil {
		t.Fatalf("too early: %q", told)
	}
	*now = now.Add(time.Second)
	d.look(t.Context())
	want := []string{
		"m-0:6050 MEMORY:m-1:m-1", "e-0:6050 MEMORY:m-1:m-1", "mon-0:6600 depart:MEMORY:m-1:m-1",
		"r-0:6400 depart:MEMORY:m-1:m-1", "r-1:6400 depart:MEMORY:m-1:m-1", "127.0.0.1:6400 depart:MEMORY:m-1:m-1",
	}
	if told := c.told(); !slices.Equal(told, want) {
		t.Fatalf("got %q\nwant %q", told, want)
	}
	if got := d.Counts(); got.Departs != 6 || got.Gone != 1 || got.MemoryNodes != 2 {
		t.Errorf("%+v", got)
	}
	c.members["127.0.0.1"] = tiers([]wire.Server{server("m-0")}, []wire.Server{server("e-0")})
	*now = now.Add(time.Hour)
	d.look(t.Context())
	if told := c.told(); told != nil {
		t.Errorf("once more: %q", told)
	}
}

// TestNotDeparted: wherever there is a doubt, nothing is said. After an hour, with a look
// each half minute.
func TestNotDeparted(t *testing.T) {
	for name, change := range map[string]func(d *Departer, c *cluster, look int){
		"all are there":           func(_ *Departer, c *cluster, _ int) { c.names["m-1"] = []string{"10.0.0.2"} },
		"DNS fails for the node":  func(_ *Departer, c *cluster, _ int) { c.names["m-1"] = []string{} },
		"DNS fails for us":        func(_ *Departer, c *cluster, _ int) { c.names["routing"] = []string{} },
		"DNS does not know us":    func(_ *Departer, c *cluster, _ int) { delete(c.names, "routing") },
		"DNS fails for a tier":    func(_ *Departer, c *cluster, _ int) { c.names["disk"] = []string{} },
		"it answers all the same": func(_ *Departer, c *cluster, _ int) { c.listen = map[string]bool{"m-1": true} },
		"it has lost its name, and answers at its address": func(_ *Departer, c *cluster, look int) {
			c.listen = map[string]bool{"10.0.0.2": true}
			if c.names["m-1"] = []string{"10.0.0.2"}; look > 0 {
				delete(c.names, "m-1")
			}
		},
		"its Service was renamed": func(d *Departer, c *cluster, look int) {
			c.listen = map[string]bool{"10.0.0.2": true}
			if c.names["m-1"] = []string{"10.0.0.2"}; look > 0 {
				delete(c.names, "m-1")
				c.names["other"], d.Memory = []string{"10.0.0.1", "10.0.0.2"}, "other"
			}
		},
		"routing does not answer": func(_ *Departer, c *cluster, _ int) { c.members = nil },
		"it is there every other time": func(_ *Departer, c *cluster, look int) {
			c.names["m-1"] = []string{"10.0.0.2"}
			if look%2 == 0 {
				delete(c.names, "m-1")
			}
		},
		"the tier needs as many":       func(d *Departer, _ *cluster, _ int) { d.Keep = keeping(Keep{wire.Memory: 2}) },
		"the replication is not known": func(d *Departer, _ *cluster, _ int) { d.Keep = keeping(nil) },
		"no memory node would be left": func(_ *Departer, c *cluster, _ int) {
			c.members["127.0.0.1"] = tiers([]wire.Server{server("m-1")}, []wire.Server{server("e-0")})
		},
		"all memory nodes are gone": func(_ *Departer, c *cluster, _ int) { delete(c.names, "m-0") },
		"DNS fails between, every time": func(_ *Departer, c *cluster, look int) {
			c.names["routing"] = []string{"10.0.0.9"}
			if look%2 == 0 {
				c.names["routing"] = nil
			}
		},
		"an address that its Service has": func(_ *Departer, c *cluster, _ int) {
			c.members["127.0.0.1"] = tiers([]wire.Server{server("10.0.0.1")}, []wire.Server{server("10.0.0.3")})
		},
	} {
		d, c, now := departing()
		for look := range 120 {
			change(d, c, look)
			d.look(t.Context())
			*now = now.Add(30 * time.Second)
		}
		if told := c.told(); told != nil {
			t.Errorf("%s: %q", name, told[0])
		}
	}
}

// TestDepartReused: that another node has the address now that a node had does not keep it.
func TestDepartReused(t *testing.T) {
	d, c, now := departing()
	c.names["m-1"] = []string{"10.0.0.2"}
	d.look(t.Context())
	delete(c.names, "m-1")
	c.members["127.0.0.1"] = tiers([]wire.Server{server("m-0"), server("m-1"), server("m-2")}, nil)
	c.names["m-2"], c.listen = []string{"10.0.0.2"}, map[string]bool{"10.0.0.2": true}
	for range 3 {
		d.look(t.Context())
		*now = now.Add(time.Minute)
	}
	if told := c.told(); len(told) == 0 || told[0] != "m-0:6050 MEMORY:m-1:m-1" {
		t.Errorf("got %q", told)
	}
}

// TestDepartAddress: a node that is known by its address is gone when no Service has it,
// also where its tier has no node any more.
func TestDepartAddress(t *testing.T) {
	d, c, now := departing()
	c.members["127.0.0.1"] = tiers([]wire.Server{server("10.0.0.1")}, []wire.Server{server("10.0.0.3"), {Public: "192.0.2.7", Private: "10.0.0.4"}})
	delete(c.names, "disk")
	d.Routing, d.Monitoring = nil, func(context.Context) ([]string, error) { return nil, errors.New("no monitor") }
	d.look(t.Context())
	*now = now.Add(time.Hour)
	d.look(t.Context())
	want := []string{
		"10.0.0.1:6050 DISK:10.0.0.3:10.0.0.3", "127.0.0.1:6400 depart:DISK:10.0.0.3:10.0.0.3",
		"10.0.0.1:6050 DISK:192.0.2.7:10.0.0.4", "127.0.0.1:6400 depart:DISK:192.0.2.7:10.0.0.4",
	}
	if told := c.told(); !slices.Equal(told, want) {
		t.Errorf("got %q\nwant %q", told, want)
	}
}

// TestSpare: the tier comes down to its replication and not below, and the longest gone
// goes first.
func TestSpare(t *testing.T) {
	var memory []wire.Server
	d, c, now := departing()
	for _, name := range []string{"m-0", "m-3", "m-2", "m-1"} {
		memory = append(memory, server(name))
	}
	d.Keep = keeping(Keep{wire.Memory: 2, wire.Disk: 1})
	c.members["127.0.0.1"] = tiers(memory, nil)
	c.names["m-3"], c.names["m-2"] = []string{"10.0.0.5"}, []string{"10.0.0.6"}
	d.look(t.Context())
	*now = now.Add(time.Second)
	delete(c.names, "m-2")
	d.look(t.Context())
	*now = now.Add(time.Second)
	delete(c.names, "m-3")
	d.look(t.Context())
	*now = now.Add(time.Hour)
	d.Routing, d.Monitoring = nil, nil
	d.look(t.Context())
	want := []string{"m-0:6050 MEMORY:m-1:m-1", "127.0.0.1:6400 depart:MEMORY:m-1:m-1", "m-0:6050 MEMORY:m-2:m-2", "127.0.0.1:6400 depart:MEMORY:m-2:m-2"}
	if told := c.told(); !slices.Equal(told, want) {
		t.Errorf("got %q\nwant %q", told, want)
	}
}

// TestDepartAgain: who was not reached is told at the next look, as the own routing node
// still has the node.
func TestDepartAgain(t *testing.T) {
	d, c, now := departing()
	c.deaf = map[string]bool{"r-1": true, "127.0.0.1": true}
	d.look(t.Context())
	*now = now.Add(time.Minute)
	d.look(t.Context())
	c.told()
	c.deaf = nil
	d.look(t.Context())
	if told := c.told(); !slices.Contains(told, "r-1:6400 depart:MEMORY:m-1:m-1") {
		t.Errorf("got %q", told)
	}
}
