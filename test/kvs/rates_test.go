package kvs

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/backup"
	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/replay"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode"
)

// least is what share of the plain protocol's rate backup and replay have to reach.
const least = 0.8

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

// middle is the median of how each run compares with the one beside it: of four, one that
// something else on the machine has disturbed does not count.
func middle(plain, timed []time.Duration) float64 {
	shares := make([]float64, len(plain))
	for i := range plain {
		shares[i] = plain[i].Seconds() / timed[i].Seconds()
	}
	slices.Sort(shares)
	n := len(shares)
	return (shares[(n-1)/2] + shares[n/2]) / 2
}

// A backup reads the keys of a thread as fast as a plain client that reads them and drops
// them, or nearly, though the node here is several times as fast as Anna; a replay writes them as fast as one that checks nothing. They go
// several times, turn and turn about.
func TestRates(t *testing.T) {
	d := Data{Keys: scale(10_000, 1_000_000), Seed: 21}
	d.Large = d.Keys / 1000
	// Less than Anna's 15 s: two reports are waited for before each backup.
	cfg := wish{Memory: 1, Threads: 1, Report: time.Duration(scale(1, 5)) * time.Second}
	one := start(t, cfg)
	keys, tuples := make([]string, d.Keys), make([]wire.Tuple, d.Keys)
	for i := range d.Keys {
		tuples[i] = d.Tuple(i, 0)
		keys[i] = tuples[i].Key
	}
	plain := bare(t)
	began := time.Now()
	if err := plain.Put(t.Context(), one.Routing[0], 1, tuples); err != nil {
		t.Fatal(err)
	}
	put := []time.Duration{time.Since(began)}

	storage, _ := shelf(t)
	ours := connect(t, one.Routing, 1)
	hosts, err := annanode.FreeHosts(1)
	if err != nil {
		t.Fatal(err)
	}
	library, err := NewLibrary(t.Context(), hosts[0], 6980)
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	var get, got, backedUp []time.Duration
	thread := "tcp://" + one.Memory[0] + ":6200"
	rounds := scale(2, 4)
	for round := range rounds {
		name := fmt.Sprintf("b%d", round)
		began = time.Now()
		if _, err := plain.Get(t.Context(), thread, keys); err != nil {
			t.Fatal(err)
		}
		get = append(get, time.Since(began))
		began = time.Now()
		if err := library.Get(t.Context(), thread, keys); err != nil {
			t.Fatal(err)
		}
		got = append(got, time.Since(began))
		source := &timed{Client: ours}
		m, err := backup.Run(t.Context(), backup.Job{Name: name, Node: "memory-0", Role: "memory", Full: true, Tier: wire.Memory, Threads: 1,
			Self: wire.Server{Public: one.Memory[0], Private: one.Memory[0]}, Local: one.Memory[0], Scratch: t.TempDir(), Period: cfg.Report}, source, storage, func(backup.Progress) {})
		if err != nil {
			t.Fatal(err)
		}
		backedUp = append(backedUp, time.Since(source.first))
		if m.Keys != int64(d.Keys) || m.Missing.Count != 0 {
			t.Fatalf("the backup has %d of %d keys", m.Keys, d.Keys)
		}
	}

	staged, err := stage.Fetch(t.Context(), storage, "rates", "b1", []string{"memory-0"}, nil, filepath.Join(t.TempDir(), "staged"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var replayed []time.Duration
	for range 2 {
		// Keys are new to each of these clusters, as they were to the first.
		other := start(t, cfg)
		c := connect(t, other.Routing, 1)
		began = time.Now()
		if err := replay.Run(t.Context(), replay.Options{Client: c, Staged: staged}); err != nil {
			t.Fatal(err)
		}
		replayed = append(replayed, time.Since(began))
		if v, err := d.Verify(t.Context(), c, func(int) int { return 0 }, func(i int) bool { return i%7 == 0 }); err != nil || v.Wrong+v.Missing > 0 || v.Equal == 0 {
			t.Fatalf("%+v, %v", v, err)
		}
		if len(put) < 2 {
			third := start(t, cfg)
			began = time.Now()
			if err := plain.Put(t.Context(), third.Routing[0], 1, tuples); err != nil {
				t.Fatal(err)
			}
			put = append(put, time.Since(began))
		}
	}
	for _, each := range []struct {
		what         string
		plain, timed []time.Duration
		judged       bool
	}{
		{"backup against GET of a plain client with go-zeromq", got, backedUp, true},
		{"backup against GET of one with the sidecar's own connections, not judged", get, backedUp, false},
		{"replay against lookup and PUT of the latter", put, replayed, true},
	} {
		share := middle(each.plain, each.timed)
		t.Logf("%s: %v, %v", each.what, each.plain, each.timed)
		figure(t, "%s: %.0f %% (%s of %s; %d keys, %d runs of each)", each.what, 100*share,
			rate(len(each.timed)*d.Keys, total(each.timed)), rate(len(each.plain)*d.Keys, total(each.plain)), d.Keys, len(each.plain))
		if full() && each.judged && share < least {
			t.Errorf("%s is %.0f %%, less than %.0f %%", each.what, 100*share, 100*least)
		}
	}
}

func total(all []time.Duration) (sum time.Duration) {
	for _, d := range all {
		sum += d
	}
	return sum
}
