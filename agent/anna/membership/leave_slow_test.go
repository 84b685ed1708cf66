package membership

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// swallowing is a cluster of which some hosts are gone without a word: what is sent to them
// is neither taken nor refused, until whoever sends gives up.
type swallowing struct {
	*acknowledging
	gone []string
}

func (s swallowing) Members(ctx context.Context, host string) (wire.Membership, error) {
	if slices.Contains(s.gone, host) {
		return wire.Membership{}, until(ctx)
	}
	return s.acknowledging.Members(ctx, host)
}

func (s swallowing) Push(ctx context.Context, host string, port int, message string) error {
	if slices.Contains(s.gone, host) {
		return until(ctx)
	}
	return s.acknowledging.Push(ctx, host, port, message)
}

// until is as long as a push to nowhere lasts: package client of ZeroMQ gives up on it.
func until(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

// Machines that are lost take routing nodes and members with them, whose addresses stay and
// do not answer. Whoever is told to end then has twenty seconds to hand its keys over, and
// loses what is left: not one of them may go by with waiting for those.
func TestLeaveWhileOthersAreLost(t *testing.T) {
	t.Parallel()
	members := tiers([]wire.Server{server("m-0"), server("m-1"), server("m-2"), server("m-3")}, []wire.Server{server("e-0")})
	node := swallowing{gone: []string{"r-0", "m-2", "m-3", "e-0"}, acknowledging: &acknowledging{t: t, threads: 2, cluster: &cluster{
		members: map[string]wire.Membership{"r-1": {}, "r-2": members}, // r-1 was started anew and knows nobody
		listen:  map[string]bool{"m-1": true},
	}}}
	a := announcer(node.cluster, "r-0", "r-1", "r-2")
	a.Messenger = node
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	began := time.Now()
	if err := a.Leave(ctx, 2, node.listens); err != nil {
		t.Fatalf("after %v: %v", time.Since(began), err)
	}
	told := node.told()
	slices.Sort(told)
	if want := []string{"m-1:6050 MEMORY:m-0:m-0", "r-1:6400 depart:MEMORY:m-0:m-0", "r-2:6400 depart:MEMORY:m-0:m-0"}; !slices.Equal(told, want) {
		t.Errorf("told was %q", told)
	}
	if !slices.Equal(node.asked, []int{1, 0}) {
		t.Errorf("threads %v were asked to hand over", node.asked)
	}
}

// longest is less than the twenty seconds of a pod, which are for the keys.
const longest = 15 * time.Second

// Where the DNS does not answer as the node leaves, the routing nodes of the last look are
// asked.
func TestLeaveWithoutDNS(t *testing.T) {
	t.Parallel()
	node := &acknowledging{t: t, threads: 1, cluster: &cluster{
		members: map[string]wire.Membership{"r-0": tiers([]wire.Server{server("m-0"), server("m-1")}, nil)},
		listen:  map[string]bool{"m-1": true},
	}}
	a := announcer(node.cluster, "r-0")
	a.Messenger = node
	a.look(t.Context())
	a.Routing = func(ctx context.Context) ([]string, error) { return nil, until(ctx) }
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	if err := a.Leave(ctx, 1, node.listens); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(node.asked, []int{0}) {
		t.Errorf("threads %v were asked to hand over", node.asked)
	}
	if _, err := announcer(node.cluster).routing(t.Context()); err != nil {
		t.Errorf("no routing node is no error: %v", err)
	}
	b := announcer(node.cluster)
	b.Routing = func(context.Context) ([]string, error) { return nil, errDeaf }
	if _, err := b.routing(t.Context()); !errors.Is(err, errDeaf) {
		t.Errorf("nobody was ever seen: %v", err)
	}
}

// A node that waits at its start does so without a word, so that is told of it, once.
func TestSilentNodeIsTold(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	now, answers := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC), false
	a := announcer(&cluster{}, "r-0")
	a.Log = slog.New(slog.NewTextHandler(&said, nil))
	a.Clock = func() time.Time { return now }
	a.Answers = func(context.Context) bool { return answers }
	look := func(later time.Duration) int {
		now = now.Add(later)
		a.look(t.Context())
		return strings.Count(said.String(), "the node does not answer")
	}
	if n := look(0) + look(waits-time.Second); n != 0 {
		t.Errorf("told %d times before it was long:\n%s", n, &said)
	}
	if n := look(time.Second); n != 1 || !strings.Contains(said.String(), "seed_ip") || !strings.Contains(said.String(), "mgmt_ip") {
		t.Errorf("told %d times:\n%s", n, &said)
	}
	if n := look(time.Hour); n != 1 {
		t.Errorf("told %d times", n)
	}
	answers = true
	look(time.Second)
	answers = false
	if look(time.Second); look(waits) != 2 {
		t.Errorf("a second time is not told:\n%s", &said)
	}
}

// asking notes when it is asked first.
type asking struct {
	*cluster
	asked func()
}

func (a asking) Members(context.Context, string) (wire.Membership, error) {
	a.asked()
	return wire.Membership{}, errors.New("nobody")
}

// TestLeavesWhenOthersHaveJoined: who else is there is asked when a node that joins at that
// moment has joined.
func TestLeavesWhenOthersHaveJoined(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{20 * time.Second: way, 4 * time.Second: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			began, asked := time.Now(), time.Duration(-1)
			a := announcer(&cluster{}, "r-0")
			a.Messenger = asking{&cluster{}, func() { asked = time.Since(began) }}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := a.Leave(ctx, 1, nil); !errors.Is(err, ErrStays) || asked != want {
				t.Errorf("within %s: asked after %s, want %s: %v", limit, asked, want, err)
			}
		})
	}
}
