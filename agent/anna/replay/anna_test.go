package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/lattice"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode"
)

// anna starts a cluster that speaks the protocol, and a client of it.
func anna(t testing.TB, cfg annanode.ClusterConfig) (*annanode.Cluster, *client.Client) {
	t.Helper()
	cfg.Freeze = true // as Anna: too much at once, and a thread stops
	cluster, err := annanode.StartCluster(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	hosts, err := annanode.FreeHosts(1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(t.Context(), client.Options{Listen: hosts[0] + ":6980", Advertise: hosts[0], Routing: cluster.RoutingHosts(),
		RoutingThreads: max(1, cfg.Threads.Routing), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return cluster, c
}

// has compares what a cluster has with what was in the backup.
func has(t *testing.T, cluster *annanode.Cluster, want map[string]string) {
	t.Helper()
	wrong := 0
	for key, value := range want {
		found := false
		for _, n := range cluster.Nodes {
			if tuple, ok := n.Get(key); ok {
				text, err := lattice.Canonical(tuple.Lattice, tuple.Payload)
				found = found || err == nil && fmt.Sprintf("%v %x", tuple.Lattice, text) == value
			}
		}
		if !found {
			if wrong++; wrong == 1 {
				t.Errorf("%s is not there as it was", key)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d keys are wrong", wrong, len(want))
	}
}

// Into nodes that speak Anna's protocol, stopped in the middle, and done twice.
func TestAnna(t *testing.T) {
	records, want := backup(5000)
	cluster, c := anna(t, annanode.ClusterConfig{Routing: 2, Memory: 3, Threads: annanode.Threads{Memory: 2, Routing: 2}})
	o := Options{Client: c, Staged: staged(t, records, 500), State: t.TempDir(), Check: 10, Pause: 20 * time.Millisecond}
	ctx, stop := context.WithCancel(t.Context())
	stopping := &counted{Client: c, stop: stop}
	stopping.left.Store(3000)
	o.Client = stopping
	if err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	o.Client = c
	for range 2 {
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		has(t, cluster, want)
		o.State = t.TempDir()
	}
	for _, n := range append(cluster.Nodes, cluster.Routing...) {
		if most := n.Stats().Max().MaxOutstanding; most > Outstanding {
			t.Errorf("%d were outstanding to a thread", most)
		}
	}
}

// counted stops a replay after some PUTs.
type counted struct {
	*client.Client
	left atomic.Int64
	stop func()
}

func (c *counted) Put(ctx context.Context, at string, tuples []wire.Tuple) ([]client.PutResult, error) {
	if c.left.Add(-int64(len(tuples))) < 0 {
		c.stop()
	}
	return c.Client.Put(ctx, at, tuples)
}

// The disk tier drops keys whose directory is not there: that is found out, and does not
// happen with the directories that stage makes.
func TestAnnaDisk(t *testing.T) {
	root := t.TempDir()
	config := annanode.ClusterConfig{Routing: 1, Memory: 1, Disk: 1, Threads: annanode.Threads{Disk: 2}, Root: func(string) string { return root }}
	config.Replication = annanode.Replication{Disk: 1, Local: 1}
	_, c := anna(t, config)
	for tid := range 2 {
		if err := os.MkdirAll(filepath.Join(root, fmt.Sprint("ebs_", tid)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	records, _ := backup(60)
	var plain []stage.Record
	for _, r := range records {
		if r.Lattice != wire.TypePriority {
			plain = append(plain, r)
		}
	}
	plain = append(plain, stage.Record{Key: "tombstone", Lattice: wire.TypeLWW, Payload: wire.AppendLWW(nil, wire.LWW{Timestamp: 7})})
	o := Options{Client: c, Staged: staged(t, plain, 50), Pause: 5 * time.Millisecond}
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	records[0].Key = "funcs/f"
	o.Staged = staged(t, records[:1], 50)
	if err := Run(t.Context(), o); !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
	for tid := range 2 {
		if err := os.MkdirAll(filepath.Join(root, fmt.Sprint("ebs_", tid), "funcs"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := Run(t.Context(), o); err != nil {
		t.Error(err)
	}
}
