package membership

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// acknowledging is a node some of whose threads hand over, each with an acknowledgement over
// ZeroMQ; thread 0 sees to it that those do who have not.
type acknowledging struct {
	*cluster
	t       *testing.T
	threads int
	mutex   sync.Mutex
	asked   []int
	acks    sync.WaitGroup
}

func (a *acknowledging) Push(ctx context.Context, host string, port int, message string) error {
	tid := port - wire.PortSelfDepart
	if tid < 0 || tid > 9 {
		return a.cluster.Push(ctx, host, port, message)
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	n := 1
	if tid == 0 {
		n = a.threads - len(a.asked)
	}
	if a.asked = append(a.asked, tid); tid >= a.threads {
		return nil
	}
	a.acks.Go(func() {
		for range n {
			host, port, err := wire.ParseAddress(message)
			if err == nil {
				err = ZeroMQ{}.Push(context.Background(), host, port, "m-0_m-0_MEMORY")
			}
			if err != nil {
				a.t.Error(err)
			}
		}
	})
	return nil
}

func TestLeave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		threads, answering int
		want               error
		asked              []int
	}{
		// Thread 0 last: the process ends behind it.
		"all threads":          {3, 3, nil, []int{1, 2, 0}},
		"not all":              {3, 2, context.DeadlineExceeded, []int{1, 2}},
		"one":                  {1, 1, nil, []int{0}},
		"as many as there are": {0, 2, nil, []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := &acknowledging{t: t, threads: c.answering, cluster: &cluster{
				members: map[string]wire.Membership{"r-1": tiers([]wire.Server{server("m-0"), server("m-1")}, nil)},
				listen:  map[string]bool{"m-1": true},
			}}
			a := announcer(node.cluster, "r-0", "r-1")
			a.Messenger = node
			limit := time.Minute
			if c.want != nil {
				limit = 12 * time.Second // it is waited for
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := a.Leave(ctx, c.threads, node.listens)
			node.acks.Wait()
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if !a.Counts().Left {
				t.Error("it would announce itself again")
			}
			var told []string
			if c.threads > 1 {
				// Everybody knows before the first thread hands over, or the keys come back.
				told = []string{"m-1:6050 MEMORY:m-0:m-0", "r-0:6400 depart:MEMORY:m-0:m-0", "r-1:6400 depart:MEMORY:m-0:m-0"}
			}
			if heard := node.told(); !slices.Equal(heard, told) || !slices.Equal(node.asked, c.asked) {
				t.Errorf("threads %v were asked to hand over, and told was %q", node.asked, heard)
			}
		})
	}
}

// TestStays: the keys are handed to somebody or stay.
func TestStays(t *testing.T) {
	two := []wire.Server{server("m-0"), server("m-1")}
	for name, c := range map[string]struct {
		members wire.Membership
		change  func(*Announcer)
		want    string
	}{
		"alone":                        {tiers(two[:1], []wire.Server{server("e-0")}), nil, "no other node of tier MEMORY"},
		"the other is gone":            {tiers([]wire.Server{server("m-0"), server("m-7")}, nil), nil, "no other node of tier MEMORY"},
		"the replication needs it":     {tiers(two, nil), func(a *Announcer) { a.Keep = keeping(Keep{wire.Memory: 2}) }, "replication of 2"},
		"the replication is not known": {tiers(two, nil), func(a *Announcer) { a.Keep = keeping(nil) }, "replication is not known"},
		"nobody knows it":              {tiers(two[1:], nil), nil, "no routing node knows this node"},
		"routing does not answer":      {wire.Membership{}, func(a *Announcer) { a.Routing = hosts("r-9") }, "no routing node tells"},
		"nobody knows the routing":     {wire.Membership{}, func(a *Announcer) { a.Routing = hosts() }, "there is none"},
		"it does not know its name": {tiers(two, nil), func(a *Announcer) {
			a.Self = func(context.Context) (wire.Server, error) { return wire.Server{}, errors.New("x") }
		}, "not known"},
		"the last of the disk's tier": {tiers(two, []wire.Server{server("m-0")}), func(a *Announcer) { a.Tier = wire.Disk }, "no other node of tier DISK"},
	} {
		node := &cluster{members: map[string]wire.Membership{"r-0": c.members}, listen: map[string]bool{"m-1": true}}
		a := announcer(node, "r-0")
		if c.change != nil {
			c.change(a)
		}
		err := a.Leave(t.Context(), 1, node.listens)
		if !errors.Is(err, ErrStays) || !strings.Contains(err.Error(), c.want) || a.Counts().Left || node.told() != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// others is a cluster whose other memory nodes leave behind the first question.
type others struct {
	*cluster
	asked int
}

func (o *others) Members(ctx context.Context, host string) (wire.Membership, error) {
	if o.asked++; o.asked > 1 {
		return tiers([]wire.Server{server("m-0")}, []wire.Server{server("e-0")}), nil
	}
	return o.cluster.Members(ctx, host)
}

// TestLeaveTogether: of memory nodes that are stopped at once the first one stays, or routing
// would know nodes of the disk tier only.
func TestLeaveTogether(t *testing.T) {
	t.Parallel()
	node := &others{cluster: &cluster{
		members: map[string]wire.Membership{"r-0": tiers([]wire.Server{server("m-0"), server("m-1")}, []wire.Server{server("e-0")})},
		listen:  map[string]bool{"m-1": true},
	}}
	a := announcer(node.cluster, "r-0")
	a.Messenger = node
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := a.Leave(ctx, 1, node.listens); !errors.Is(err, ErrStays) || a.Counts().Left || node.told() != nil {
		t.Errorf("%v", err)
	}
}
