package membership

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// process stands in for the node's: each start of it ends the watch of the one before.
type process struct{ ended chan struct{} }

func (p *process) start() {
	if p.ended != nil {
		close(p.ended)
	}
	p.ended = make(chan struct{})
}

func (p *process) watch(context.Context, string, int) (<-chan struct{}, error) {
	if p.ended == nil {
		return nil, errDeaf
	}
	return p.ended, nil
}

func teller(c *cluster, threads int, routing ...string) (*Announcer, *process) {
	a, p := announcer(c, routing...), &process{}
	p.start()
	a.Threads, a.Watch = func() int { return threads }, p.watch
	return a, p
}

// TestTellThreads: each thread hears of each other node that all routing nodes have, once
// for each list and each start of the process, and never with a count that has a node send
// keys.
func TestTellThreads(t *testing.T) {
	me, m1, m2, e0 := server("m-0"), server("m-1"), server("m-2"), server("e-0")
	whole := tiers([]wire.Server{m1, me}, []wire.Server{e0})
	c := &cluster{members: map[string]wire.Membership{"r-0": whole, "r-1": tiers([]wire.Server{me, m2, m1}, []wire.Server{e0})}}
	a, p := teller(c, 2, "r-0", "r-1", "r-9")
	all := []string{
		"127.0.0.1:6001 MEMORY:m-1:m-1:-1", "127.0.0.1:6001 DISK:e-0:e-0:-1",
		"127.0.0.1:6000 MEMORY:m-1:m-1:-1", "127.0.0.1:6000 DISK:e-0:e-0:-1",
	}
	looks := func(what string, want ...[]string) {
		t.Helper()
		for i, w := range want {
			a.look(t.Context())
			if told := c.told(); !slices.Equal(told, w) {
				t.Fatalf("%s: look %d: got %q, want %q", what, i+1, told, w)
			}
		}
	}
	looks("at first", nil, all, nil, nil)
	p.start()
	looks("after a new start", nil, all, nil)
	c.members["r-0"] = c.members["r-1"]
	more := slices.Concat(all[:1], []string{"127.0.0.1:6001 MEMORY:m-2:m-2:-1"}, all[1:3], []string{"127.0.0.1:6000 MEMORY:m-2:m-2:-1"}, all[3:])
	looks("of a node that is new", nil, more, nil)
	c.members["r-0"], c.members["r-1"] = whole, whole
	looks("of a node that has left", nil, all, nil)
	c.members["r-0"] = tiers([]wire.Server{m1}, nil) // one that has started anew knows nobody
	looks("of less than all routing nodes", nil, []string{"r-0:6400 join:MEMORY:m-0:m-0:-1"})
	if got := a.Counts().Threads; got != 8 {
		t.Errorf("threads were told %d times", got)
	}
}

// TestTellThreadsLeaving: a node that leaves at the moment at which the threads are told of it
// is taken out again, or it would stay in their rings.
func TestTellThreadsLeaving(t *testing.T) {
	with, without := tiers([]wire.Server{server("m-0"), server("m-1")}, nil), tiers([]wire.Server{server("m-0")}, nil)
	c := &cluster{members: map[string]wire.Membership{"r-0": with}}
	a, _ := teller(c, 2, "r-0")
	a.look(t.Context())
	a.look(t.Context())
	if told := c.told(); len(told) != 2 {
		t.Fatalf("%q", told)
	}
	c.members["r-0"] = without
	a.look(t.Context())
	if told, want := c.told(), []string{"127.0.0.1:6051 MEMORY:m-1:m-1", "127.0.0.1:6050 MEMORY:m-1:m-1"}; !slices.Equal(told, want) {
		t.Errorf("got %q, want %q", told, want)
	}
	for _, m := range []wire.Membership{with, with, with, without} { // told of again; later it is not ours to say
		c.members["r-0"] = m
		a.look(t.Context())
	}
	if told := c.told(); len(told) != 2 {
		t.Errorf("%q", told)
	}
	// Nor is it where the routing node has forgotten everybody.
	for _, m := range []wire.Membership{with, with, {}, without} {
		c.members["r-0"] = m
		a.look(t.Context())
	}
	for _, told := range c.told() {
		if strings.Contains(told, ":605") {
			t.Error("departed a node that routing has forgotten")
		}
	}
}

func TestTellThreadsNothing(t *testing.T) {
	for name, change := range map[string]func(a *Announcer, p *process){
		"the number is not known":  func(a *Announcer, _ *process) { a.Threads = func() int { return 0 } },
		"nobody has said it":       func(a *Announcer, _ *process) { a.Threads = nil },
		"the process is not there": func(_ *Announcer, p *process) { p.ended = nil },
		"it leaves":                func(a *Announcer, _ *process) { a.stage = leaves },
	} {
		c := &cluster{members: map[string]wire.Membership{"r-0": tiers([]wire.Server{server("m-0"), server("m-1")}, nil)}}
		a, p := teller(c, 2, "r-0")
		change(a, p)
		for range 4 {
			a.look(t.Context())
		}
		if told := c.told(); told != nil {
			t.Errorf("%s: %q", name, told)
		}
	}
	// A thread that cannot be told is told later.
	c := &cluster{members: map[string]wire.Membership{"r-0": tiers([]wire.Server{server("m-0"), server("m-1")}, nil)}, deaf: map[string]bool{"127.0.0.1": true}}
	a, _ := teller(c, 1, "r-0")
	for range 3 {
		a.look(t.Context())
	}
	c.deaf = nil
	a.look(t.Context())
	if told := c.told(); len(told) != 1 {
		t.Errorf("%q", told)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	taken := make(chan *zmtp.Conn, 2)
	listener, err := zmtp.Listen("127.0.0.1:0", zmtp.Pull, func(conn *zmtp.Conn) {
		taken <- conn
		_, _ = conn.Recv()
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch := func(ctx context.Context) (<-chan struct{}, *zmtp.Conn) {
		ended, err := Watch(ctx, "127.0.0.1", listener.Port())
		if err != nil {
			t.Fatal(err)
		}
		return ended, <-taken
	}
	first, conn := watch(t.Context())
	second, _ := watch(ctx)
	select {
	case <-first:
		t.Fatal("ended at once")
	case <-second:
		t.Fatal("ended at once")
	case <-time.After(50 * time.Millisecond):
	}
	_ = conn.Close()
	<-first
	cancel()
	<-second
	_ = listener.Close()
	if _, err := Watch(t.Context(), "127.0.0.1", listener.Port()); err == nil {
		t.Error("nobody is there")
	}
}
