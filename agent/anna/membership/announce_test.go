package membership

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

func announcer(c *cluster, routing ...string) *Announcer {
	return &Announcer{
		Messenger: c, Self: func(context.Context) (wire.Server, error) { return server("m-0"), nil }, Tier: wire.Memory,
		Routing: hosts(routing...), Keep: keeping(Keep{}), Answers: func(context.Context) bool { return true }, Log: discard(),
	}
}

// TestAnnounce: a routing node that was restarted is told at the second look, by the
// routing node, not all of them, and with a count that changes nothing elsewhere.
func TestAnnounce(t *testing.T) {
	c := &cluster{members: map[string]wire.Membership{
		"r-0": tiers([]wire.Server{server("m-0"), server("m-1")}, nil),
		"r-1": {},
	}}
	a := announcer(c, "r-0", "r-1", "r-2")
	a.look(t.Context())
	if told := c.told(); told != nil {
		t.Fatalf("told at once: %q", told)
	}
	a.look(t.Context())
	if told, want := c.told(), []string{"r-1:6400 join:MEMORY:m-0:m-0:-1"}; !slices.Equal(told, want) {
		t.Fatalf("got %q, want %q", told, want)
	}
	if got := a.Counts(); got.Joins != 1 || got.Known != 1 || got.Routing != 3 || got.Troubles != 2 {
		t.Errorf("%+v", got)
	}
	c.members["r-1"] = c.members["r-0"]
	a.look(t.Context())
	a.look(t.Context())
	if told := c.told(); told != nil {
		t.Errorf("told again: %q", told)
	}
}

// TestAnnounceStale: rings keep the first public address of a private one, so that one
// goes first.
func TestAnnounceStale(t *testing.T) {
	c := &cluster{members: map[string]wire.Membership{"r-0": tiers([]wire.Server{{Public: "192.0.2.1", Private: "m-0"}}, nil)}}
	a := announcer(c, "r-0")
	a.look(t.Context())
	a.look(t.Context())
	want := []string{"r-0:6400 depart:MEMORY:192.0.2.1:m-0", "r-0:6400 join:MEMORY:m-0:m-0:-1"}
	if told := c.told(); !slices.Equal(told, want) {
		t.Errorf("got %q, want %q", told, want)
	}
}

// TestAnnounceDisk: a routing node that knows no memory node is told of none of the disk tier.
func TestAnnounceDisk(t *testing.T) {
	c := &cluster{members: map[string]wire.Membership{"r-0": {}}}
	a := announcer(c, "r-0")
	a.Tier = wire.Disk
	for range 3 {
		a.look(t.Context())
	}
	if told := c.told(); told != nil {
		t.Errorf("got %q", told)
	}
	c.members["r-0"] = tiers([]wire.Server{server("m-1")}, nil)
	a.look(t.Context())
	a.look(t.Context())
	if told := c.told(); !slices.Equal(told, []string{"r-0:6400 join:DISK:m-0:m-0:-1"}) {
		t.Errorf("got %q", told)
	}
}

// TestAnnounceNothing: whoever does not serve, or left, or does not know himself, says
// nothing.
func TestAnnounceNothing(t *testing.T) {
	for name, change := range map[string]func(*Announcer){
		"does not serve": func(a *Announcer) { a.Answers = func(context.Context) bool { return false } },
		"has left":       func(a *Announcer) { a.stage = leaves },
		"is not known": func(a *Announcer) {
			a.Self = func(context.Context) (wire.Server, error) { return wire.Server{}, errors.New("not yet") }
		},
		"no DNS": func(a *Announcer) {
			a.Routing = func(context.Context) ([]string, error) { return nil, errors.New("no DNS") }
		},
		"routing is all deaf": func(a *Announcer) { a.Routing = hosts("r-7") },
	} {
		c := &cluster{members: map[string]wire.Membership{"r-0": {}}}
		a := announcer(c, "r-0")
		change(a)
		for range 4 {
			a.look(t.Context())
		}
		if told := c.told(); told != nil {
			t.Errorf("%s: %q", name, told)
		}
	}
}

// TestAnnounceOnlyWhileServing: looks before the node served do not count.
func TestAnnounceOnlyWhileServing(t *testing.T) {
	c := &cluster{members: map[string]wire.Membership{"r-0": {}}}
	a := announcer(c, "r-0")
	serves := true
	a.Answers = func(context.Context) bool { return serves }
	a.look(t.Context())
	serves = false
	a.look(t.Context())
	serves = true
	a.look(t.Context())
	if told := c.told(); told != nil {
		t.Errorf("%q", told)
	}
}

// TestAnnounceAfterLeaving: a node that leaves is known for a moment yet, and is not to be
// told of again for that; only one that was started anew is.
func TestAnnounceAfterLeaving(t *testing.T) {
	known, unknown := tiers([]wire.Server{server("m-0"), server("m-1")}, nil), tiers([]wire.Server{server("m-1")}, nil)
	c := &cluster{members: map[string]wire.Membership{"r-0": known, "r-1": known}}
	a := announcer(c, "r-0", "r-1")
	a.stage = leaves
	look := func(r0, r1 wire.Membership) []string {
		c.members["r-0"], c.members["r-1"] = r0, r1
		a.look(t.Context())
		return c.told()
	}
	for range 3 {
		look(known, known)
		look(unknown, known)
		look(known, unknown)
	}
	for range 3 {
		if told := look(unknown, unknown); told != nil {
			t.Fatalf("told of a node that has left: %q", told)
		}
	}
	if !a.Counts().Left {
		t.Error("it is not told as gone")
	}
	look(known, unknown) // it has started anew, and told one of them itself
	look(known, unknown)
	if told := look(known, unknown); len(told) != 1 || a.Counts().Left {
		t.Errorf("after a new start: %q", told)
	}
}
