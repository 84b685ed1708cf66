package safejoin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/lattice"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode"
)

// anna is a cluster with one memory node of two threads and keys in it, and a client.
func anna(t *testing.T, keys int) (*annanode.Cluster, *client.Client, map[string]wire.Tuple) {
	t.Helper()
	cluster, err := annanode.StartCluster(t.Context(), annanode.ClusterConfig{Routing: 1, Memory: 1, Threads: annanode.Threads{Memory: 2}, Report: 200 * time.Millisecond, Gossip: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	want := map[string]wire.Tuple{}
	for i := range keys {
		key := fmt.Sprintf("key-%d", i)
		want[key] = wire.Tuple{Key: key, Lattice: wire.TypeLWW, Payload: wire.AppendLWW(nil, wire.LWW{Timestamp: 5, Value: fmt.Append(nil, i)})}
	}
	loaded := cluster.Load(func(yield func(wire.Tuple) bool) {
		for _, tuple := range want {
			if !yield(tuple) {
				return
			}
		}
	})
	if loaded != keys {
		t.Fatalf("%d of %d keys are loaded", loaded, keys)
	}
	hosts, err := annanode.FreeHosts(1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(t.Context(), client.Options{Listen: hosts[0] + ":6980", Advertise: hosts[0], Routing: cluster.RoutingHosts(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return cluster, c, want
}

// missing counts the keys that clients do not find with their value.
func missing(t *testing.T, c *client.Client, want map[string]wire.Tuple) int {
	t.Helper()
	var keys []string
	for key := range want {
		keys = append(keys, key)
	}
	found, err := c.Find(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, tuple := range found {
		if covers, err := lattice.Covers(wire.TypeLWW, tuple.Payload, want[tuple.Key].Payload); tuple.Error != wire.NoError || err != nil || !covers {
			n++
		}
	}
	return n
}

// settled waits until the node has reported all keys.
func settled(t *testing.T, c *client.Client, s wire.Server, keys int) {
	t.Helper()
	for {
		n := 0
		for tid := range 2 {
			r, err := c.Report(t.Context(), s, wire.Memory, tid)
			if err != nil {
				t.Fatal(err)
			}
			for range wire.KeySizes(r.Sizes) {
				n++
			}
		}
		if n == keys {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A join without it hides keys for good; with it clients find all of them.
func TestJoin(t *testing.T) {
	const keys = 1000
	cluster, c, want := anna(t, keys)
	// Nobody has reported them yet.
	hosts, err := annanode.FreeHosts(1)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Client: c, Period: time.Second, Dir: filepath.Join(t.TempDir(), "join"), Tier: wire.Memory, Self: wire.Server{Public: hosts[0], Private: hosts[0]}}
	saved, err := Save(t.Context(), o)
	if err != nil || saved != keys {
		t.Fatalf("%d, %v", saved, err)
	}
	if saved, err = Save(t.Context(), o); err != nil || saved != keys {
		t.Errorf("again: %d, %v", saved, err)
	}
	if _, err := cluster.AddAt(t.Context(), wire.Memory, hosts[0]); err != nil {
		t.Fatal(err)
	}
	if n := missing(t, c, want); n < 50 {
		t.Errorf("%d keys are missing: the node has no defect to heal", n)
	}
	newer := wire.AppendLWW(nil, wire.LWW{Timestamp: 9, Value: []byte("newer")})
	at, err := c.Owners(t.Context(), "key-7")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.Put(t.Context(), at[0], []wire.Tuple{{Key: "key-7", Lattice: wire.TypeLWW, Payload: newer}}); err != nil || !r[0].Done {
		t.Fatalf("%+v, %v", r, err)
	}
	want["key-7"] = wire.Tuple{Payload: newer}
	if err := Heal(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if n := missing(t, c, want); n > 0 {
		t.Errorf("%d keys are missing", n)
	}
	if err := Heal(t.Context(), o); !errors.Is(err, ErrNothing) {
		t.Errorf("again: %v", err)
	}
	if _, err := os.Stat(o.Dir); err == nil {
		t.Error("what was saved stays")
	}
	if _, err := Save(t.Context(), o); !errors.Is(err, ErrNothing) {
		t.Errorf("a member already: %v", err)
	}
	o.Again = true
	if n, err := Save(t.Context(), o); err != nil || n == 0 || n == keys {
		t.Errorf("a member that comes back: %d, %v", n, err)
	}
	o.Dir, o.Again = filepath.Join(t.TempDir(), "disk"), false
	o.Tier = wire.Disk
	if _, err := Save(t.Context(), o); !errors.Is(err, ErrNothing) {
		t.Errorf("the first of its tier: %v", err)
	}
}

// Trouble keeps what there is, and says so.
func TestTrouble(t *testing.T) {
	cluster, c, _ := anna(t, 400)
	settled(t, c, cluster.Nodes[0].Server(), 400)
	o := Options{Client: c, Period: 200 * time.Millisecond, Tier: wire.Memory, Self: wire.Server{Public: "new", Private: "new"}}

	o.Dir, o.Bytes = filepath.Join(t.TempDir(), "full"), 100
	if n, err := Save(t.Context(), o); !errors.Is(err, errFull) || n == 0 {
		t.Errorf("%d, %v", n, err)
	}
	o.Dir, o.Bytes = filepath.Join(t.TempDir(), "late"), 0
	o.Client = slow{c}
	o.Limit = 100 * time.Millisecond
	if _, err := Save(t.Context(), o); err == nil {
		t.Error("it took no notice of its limit")
	}
	if err := Heal(t.Context(), o); !errors.Is(err, ErrNothing) {
		t.Errorf("%v", err)
	}
}

type slow struct{ *client.Client }

func (s slow) Get(ctx context.Context, _ string, _ []string) ([]wire.Tuple, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
