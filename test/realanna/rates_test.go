package realanna

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/backup"
	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/replay"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/kvs"
)

// timed is a source of a backup that knows when the first key was asked for.
type timed struct {
	*client.Client
	once  sync.Once
	first time.Time
}

func (s *timed) Get(ctx context.Context, at string, keys []string) ([]wire.Tuple, error) {
	s.once.Do(func() { s.first = time.Now() })
	return s.Client.Get(ctx, at, keys)
}

// TestRates measures the backup of a thread against a client that reads the same keys and
// drops them, and the replay against one that looks the same keys up, writes them and
// checks nothing: turn and turn about, each into a cluster that does not know the keys. It
// only tells: how busy the machine is decides too much.
func TestRates(t *testing.T) {
	if outside(t) {
		return
	}
	net := newNetwork(t)
	d := kvs.Data{Keys: 100_000, Large: 100, Seed: 21}
	keys, tuples := make([]string, d.Keys), make([]wire.Tuple, d.Keys)
	for i := range d.Keys {
		tuples[i] = d.Tuple(i, 0)
		keys[i] = tuples[i].Key
	}
	bucket := t.TempDir()
	third := 0
	fresh := func() *cluster {
		third++
		return start(t, net, bucket, third, shape{memory: 1, ebs: 1, routing: 1, inMemory: 1}, 1, 1, 0)
	}
	storage := open(t, bucket)
	var put, get, backedUp, replayed time.Duration
	for round := range 2 {
		c := fresh()
		plain, err := kvs.NewBare(gateway, 7980)
		must(t, err)
		began := time.Now()
		must(t, plain.Put(t.Context(), c.routingHosts()[0], 1, tuples))
		put += tell(t, "lookup and PUT", d.Keys, began)

		host := c.data()[0].host()
		for turn := range 2 {
			began = time.Now()
			if _, err := plain.Get(t.Context(), "tcp://"+host+":6200", keys); err != nil {
				t.Fatal(err)
			}
			get += tell(t, "GET", d.Keys, began)
			source := &timed{Client: c.client}
			m, err := backup.Run(t.Context(), backup.Job{Name: "b" + strconv.Itoa(round) + strconv.Itoa(turn), Node: "memory-0", Role: "memory", Full: true, Tier: wire.Memory,
				Threads: 1, Self: wire.Server{Public: host, Private: host}, Local: host, Scratch: t.TempDir()}, source, storage, func(backup.Progress) {})
			must(t, err)
			backedUp += tell(t, "backup", d.Keys, source.first)
			if m.Keys != int64(d.Keys) || m.Missing.Count != 0 {
				t.Fatalf("the backup has %d of %d keys", m.Keys, d.Keys)
			}
		}
		plain.Close()
		c.lose()

		staged, err := stage.Fetch(t.Context(), storage, "rates", "b"+strconv.Itoa(round)+"0", []string{"memory-0"}, nil, filepath.Join(t.TempDir(), "staged"), nil)
		must(t, err)
		c = fresh()
		began = time.Now()
		must(t, replay.Run(t.Context(), replay.Options{Client: c.client, Staged: staged}))
		replayed += tell(t, "replay", d.Keys, began)
		c.verify(d, "after the replay", first)
		c.lose()
	}
	figure(t, "backup against GET: %.0f %% (%s of %s)", 100*get.Seconds()/backedUp.Seconds(), rate(4*d.Keys, backedUp), rate(4*d.Keys, get))
	figure(t, "replay against lookup and PUT: %.0f %% (%s of %s)", 100*put.Seconds()/replayed.Seconds(), rate(2*d.Keys, replayed), rate(2*d.Keys, put))
}

func tell(t *testing.T, what string, keys int, began time.Time) time.Duration {
	t.Helper()
	took := time.Since(began)
	t.Logf("%s: %s", what, rate(keys, took))
	return took
}

// open opens the storage that the sidecars have.
func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	makeBucket(t, dir)
	s, err := store.Open(t.Context(), store.Config{Kind: store.Local, BasePath: dir, Bucket: "bucket", Prefix: "rates"})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}
