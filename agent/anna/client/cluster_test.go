package client_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/lattice"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode"
)

// values are n tuples of all types, most of them LWW.
func values(n int) []wire.Tuple {
	tuples := make([]wire.Tuple, n)
	for i := range tuples {
		t := &tuples[i]
		t.Key = fmt.Sprintf("client-%06d", i)
		text := []byte(strings.Repeat(t.Key+" ", 1+i%9))
		clock := wire.Clock{"a": uint32(i), "b": 1}
		switch i % 10 {
		case 0:
			t.Lattice, t.Payload = wire.TypeSet, wire.AppendSet(nil, wire.Set{Values: [][]byte{text, []byte("b"), []byte("a")}})
		case 1:
			t.Lattice, t.Payload = wire.TypeOrderedSet, wire.AppendSet(nil, wire.Set{Values: [][]byte{[]byte("b"), text}})
		case 2:
			t.Lattice, t.Payload = wire.TypeSingleCausal, wire.AppendSingleCausal(nil, wire.SingleCausal{Clock: clock, Values: [][]byte{text}})
		case 3:
			t.Lattice = wire.TypeMultiCausal
			t.Payload = wire.AppendMultiCausal(nil, wire.MultiCausal{
				Clock: clock, Dependencies: []wire.Version{{Key: "k", Clock: clock}, {Key: "j", Clock: clock}}, Values: [][]byte{text},
			})
		case 4:
			t.Lattice, t.Payload = wire.TypePriority, wire.AppendPriority(nil, wire.Priority{Priority: float64(i) - 100.5, Value: text})
		default:
			t.Lattice, t.Payload = wire.TypeLWW, wire.AppendLWW(nil, wire.LWW{Timestamp: uint64(i + 1), Value: text})
		}
	}
	return tuples
}

// replay writes tuples as a restore does: a lookup each, then batches by owner, a
// goroutine an owner.
func replay(t *testing.T, c *client.Client, tuples []wire.Tuple) {
	t.Helper()
	lookups := make([]*client.Lookup, len(tuples))
	for i := range tuples {
		var err error
		if lookups[i], err = c.OwnersAsync(t.Context(), tuples[i].Key); err != nil {
			t.Fatal(err)
		}
	}
	byOwner := map[string][]wire.Tuple{}
	for i, l := range lookups {
		owners, err := l.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		byOwner[owners[0]] = append(byOwner[owners[0]], tuples[i])
	}
	var wait sync.WaitGroup
	for owner, some := range byOwner {
		wait.Go(func() {
			results, err := c.Put(t.Context(), owner, some)
			if err != nil {
				t.Error(err)
				return
			}
			for _, r := range results {
				if !r.Done {
					t.Errorf("%+v", r)
				}
			}
		})
	}
	wait.Wait()
}

// listed are the keys of all threads' reports, once there are n.
func listed(t *testing.T, c *client.Client, threads, n int) map[string]string {
	t.Helper()
	members, err := c.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		at := map[string]string{}
		for _, s := range members.Of(wire.Memory) {
			for tid := range threads {
				r, err := c.Report(t.Context(), s, wire.Memory, tid)
				if err != nil {
					t.Fatal(err)
				}
				for size, err := range wire.KeySizes(r.Sizes) {
					if err != nil {
						t.Fatal(err)
					}
					at[strings.Clone(size.Key)] = fmt.Sprintf("tcp://%s:%d", s.Public, wire.PortRequest+tid)
				}
			}
		}
		if len(at) == n {
			return at
		}
		if time.Now().After(end) {
			t.Fatalf("%d keys are listed, want %d", len(at), n)
		}
	}
}

// talk is a restore and a backup, with nothing in between but Anna.
func talk(t *testing.T, c *client.Client, threads, n int) {
	want := map[string]wire.Tuple{}
	tuples := values(n)
	for _, tuple := range tuples {
		want[tuple.Key] = tuple
	}
	start := time.Now()
	replay(t, c, tuples)
	t.Logf("%d keys looked up and put in %s", n, time.Since(start))
	byThread := map[string][]string{}
	for key, at := range listed(t, c, threads, n) {
		byThread[at] = append(byThread[at], key)
	}
	start = time.Now()
	for at, keys := range byThread {
		got, err := c.Get(t.Context(), at, keys)
		if err != nil {
			t.Fatal(err)
		}
		for _, tuple := range got {
			same(t, want[tuple.Key], tuple)
		}
	}
	t.Logf("%d keys got and compared in %s", n, time.Since(start))
	for at, keys := range byThread {
		rates(t, c, at, keys)
		break
	}
	some := []string{"missing", tuples[3].Key, tuples[n-1].Key}
	found, err := c.Find(t.Context(), some)
	if err != nil {
		t.Fatal(err)
	}
	if found[0].Error != wire.KeyDNE || found[0].Lattice != wire.None {
		t.Errorf("a missing key: %+v", found[0])
	}
	same(t, tuples[3], found[1])
	same(t, tuples[n-1], found[2])
	wrong := tuples[9] // LWW
	wrong.Lattice, wrong.Payload = wire.TypeSet, wire.AppendSet(nil, wire.Set{Values: [][]byte{[]byte("x")}})
	owners, err := c.Owners(t.Context(), wrong.Key)
	if err != nil {
		t.Fatal(err)
	}
	results, err := c.Put(t.Context(), owners[0], []wire.Tuple{wrong})
	if err != nil || results[0] != (client.PutResult{Key: wrong.Key, Refused: true}) {
		t.Errorf("another type: %+v, %v", results, err)
	}
	if s := c.Stats(); s.Outstanding != 0 || s.Lost != 0 || s.TimedOut != 0 || s.Unknown != 0 || s.Malformed != 0 {
		t.Errorf("at the end: %+v", s)
	}
}

func same(t *testing.T, want, got wire.Tuple) {
	t.Helper()
	a, err := lattice.Digest(want.Key, want.Lattice, want.Payload)
	if err != nil {
		t.Fatal(err)
	}
	b, err := lattice.Digest(got.Key, got.Lattice, got.Payload)
	if err != nil || a != b || got.Error != wire.NoError {
		t.Errorf("%s: %s %s %q, %v, want %s %q", got.Key, got.Error, got.Lattice, got.Payload, err, want.Lattice, want.Payload)
	}
}

func TestWithTestNode(t *testing.T) {
	cluster, err := annanode.StartCluster(context.Background(), annanode.ClusterConfig{
		Memory: 2, Routing: 2, Threads: annanode.Threads{Memory: 2, Routing: 2}, Report: time.Second, Freeze: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(context.Background(), client.Options{
		Listen: "127.0.0.1:0", Advertise: "127.0.0.1", Routing: cluster.RoutingHosts(), RoutingThreads: 2, Deadline: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	talk(t, c, 2, 5000)
	if most := c.Stats(); most.Retried > 0 {
		t.Errorf("tuples were sent again: %+v", most)
	}
	for _, node := range append(cluster.Nodes, cluster.Routing...) {
		s := node.Stats().Max()
		if s.MaxOutstanding > client.MaxOutstanding || s.ResponseAddresses > 2 || // the client's and that of a bare loop
			s.Hung || s.MaxUnread > client.MaxOutstanding {
			t.Errorf("harm was done: %+v", s)
		}
	}
}
