package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/api/node"
)

// All keys come, with their types and values, into clusters of any size, and never are
// more tuples out than may be.
func TestReplay(t *testing.T) {
	for name, test := range map[string]struct{ keys, nodes, threads, budget, bytes, most int }{
		"one":            {3000, 1, 1, 0, 0, 800},
		"three":          {3000, 3, 4, 0, 0, 266},
		"many":           {300, 100, 1, 0, 0, 8},
		"more than keys": {200, 900, 1, 5, 0, 5},
		"one at a time":  {50, 2, 2, 1, 0, 1},
		"two":            {80, 2, 2, 2, 0, 2},
		"little memory":  {1000, 3, 2, 100, 10000, 100},
	} {
		t.Run(name, func(t *testing.T) {
			records, want := backup(test.keys)
			c := newCluster(test.nodes, test.threads)
			c.delay, c.enough, c.full = 4*time.Millisecond, test.most/4, make(chan struct{})
			o := quick(c, staged(t, records, 700))
			o.Budget, o.Bytes = test.budget, int64(test.bytes)
			var last node.Replay
			o.Progress = func(r node.Replay) { last = r }
			if err := Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			equal(t, c, want)
			if c.most > test.most || c.most < test.most/4 {
				t.Errorf("%d were out, and %d may be", c.most, test.most)
			}
			if last.Phase != node.ReplayDone || last.Keys != int64(test.keys) || last.Total != last.Keys || last.Newer != 0 || last.Failed != 0 || last.Ended.IsZero() || last.Message != "" {
				t.Errorf("%+v", last)
			}
			for key, n := range c.puts {
				if n != 1 {
					t.Errorf("%s was PUT %d times", key, n)
				}
			}
			if test.keys == 3000 && c.requests > 3000/10 {
				t.Errorf("%d PUTs for 3000 keys", c.requests)
			}
		})
	}
}

// Newer values stay, sets are merged, a second time changes nothing.
func TestNewer(t *testing.T) {
	c := newCluster(2, 2)
	set := func(key string, l wire.Lattice, payload []byte) {
		c.set(c.owner(key), wire.Tuple{Key: key, Lattice: l, Payload: payload})
	}
	lww := func(stamp uint64, value string) []byte {
		return wire.AppendLWW(nil, wire.LWW{Timestamp: stamp, Value: []byte(value)})
	}
	sets := func(values ...string) []byte {
		var s wire.Set
		for _, v := range values {
			s.Values = append(s.Values, []byte(v))
		}
		return wire.AppendSet(nil, s)
	}
	set("newer", wire.TypeLWW, lww(20, "new"))
	set("older", wire.TypeLWW, lww(5, "old"))
	set("deleted", wire.TypeLWW, lww(20, ""))
	set("set", wire.TypeSet, sets("b", "c"))
	records := []stage.Record{
		{Key: "newer", Lattice: wire.TypeLWW, Payload: lww(10, "backup")},
		{Key: "older", Lattice: wire.TypeLWW, Payload: lww(10, "backup")},
		{Key: "deleted", Lattice: wire.TypeLWW, Payload: lww(10, "backup")},
		{Key: "tombstone", Lattice: wire.TypeLWW, Payload: lww(10, "")},
		{Key: "empty", Lattice: wire.TypeSet, Payload: sets()},
		{Key: "set", Lattice: wire.TypeSet, Payload: sets("a", "b")},
		{Key: "fresh", Lattice: wire.TypeOrderedSet, Payload: sets("x")},
	}
	var first map[string]string
	for round := range 2 {
		o := quick(c, staged(t, records, 3))
		o.Check = 1
		var last node.Replay
		o.Progress = func(r node.Replay) { last = r }
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if last.Newer != 3 || last.Keys != 7 {
			t.Errorf("%+v", last)
		}
		if round == 0 {
			first = c.all(t)
			continue
		}
		equal(t, c, first)
	}
	if got, err := wire.ParseLWW(c.data[c.owner("newer")]["newer"].Payload); err != nil || string(got.Value) != "new" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := wire.ParseLWW(c.data[c.owner("older")]["older"].Payload); err != nil || string(got.Value) != "backup" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Keys that the cluster has with another type are named, and so are those of no type.
// The rest is written, and asking again says the same at once.
func TestRefused(t *testing.T) {
	records, want := backup(100)
	c := newCluster(2, 2)
	wrong := records[7].Key
	c.set(c.owner(wrong), wire.Tuple{Key: wrong, Lattice: wire.TypePriority, Payload: wire.AppendPriority(nil, wire.Priority{Priority: 1})})
	records[8].Lattice = 9
	o := quick(c, staged(t, records, 30))
	o.State = t.TempDir()
	for range 2 {
		var last node.Replay
		o.Progress = func(r node.Replay) { last = r }
		err := Run(t.Context(), o)
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), `"key-00007" is of type PRIORITY in the cluster and SET`) || !strings.Contains(err.Error(), `"key-00008" is of type 9`) {
			t.Errorf("%v", err)
		}
		if last.Phase != node.ReplayFailed || last.Failed != 2 || last.Keys != 98 || last.Message != err.Error() {
			t.Errorf("%+v", last)
		}
	}
	if len(c.all(t)) != len(want)-1 || Done(o.State, "r/1") {
		t.Errorf("%d keys", len(c.all(t)))
	}
	for key, n := range c.puts {
		if n > 1 && key != wrong {
			t.Errorf("%s was PUT %d times", key, n)
		}
	}
}

// A node that takes keys and has them not, such as one of the disk tier without its
// directories, is found out.
func TestLost(t *testing.T) {
	records, _ := backup(200)
	c := newCluster(1, 2)
	c.onPut = func(at string, t wire.Tuple) (client.PutResult, bool) {
		return client.PutResult{Key: t.Key, Done: true}, at == c.threads[1]
	}
	err := Run(t.Context(), quick(c, staged(t, records, 50)))
	if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), c.threads[1]) || strings.Contains(err.Error(), c.threads[0]) {
		t.Errorf("%v", err)
	}
}

// A node that starts anew in the middle has lost what it had: it is written again.
func TestRestarted(t *testing.T) {
	records, want := backup(600)
	c := newCluster(3, 1)
	seen := 0
	c.before = func() {
		if seen++; seen == 600 {
			clear(c.data[c.threads[1]])
		}
	}
	o := quick(c, staged(t, records, 50))
	o.State = t.TempDir()
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	equal(t, c, want)
}

// Only what is asked for is written.
func TestOnly(t *testing.T) {
	records, _ := backup(300)
	c := newCluster(3, 2)
	o := quick(c, staged(t, records, 100))
	var last node.Replay
	o.Only = func(owners []string) []string {
		return slices.DeleteFunc(owners, func(at string) bool { return at != c.threads[2] })
	}
	o.Progress = func(r node.Replay) { last = r }
	if err := Run(t.Context(), o); err != nil || last.Keys != 300 {
		t.Fatalf("%v, %+v", err, last)
	}
	for _, r := range records {
		if _, there := c.data[c.owner(r.Key)][r.Key]; there != (c.owner(r.Key) == c.threads[2]) {
			t.Errorf("%s: %v", r.Key, there)
		}
	}
}

// Nothing to write is done at once, with the cluster not there.
func TestNothing(t *testing.T) {
	for range 2 {
		if err := Run(t.Context(), Options{Staged: stage.Staged{ID: "x"}}); err != nil {
			t.Error(err)
		}
	}
}

// A staged file that is damaged ends it, and names the file.
func TestStagedDamaged(t *testing.T) {
	records, _ := backup(100)
	s := staged(t, records, 30)
	s.Packs[1].Keys++
	if err := Run(t.Context(), quick(newCluster(1, 1), s)); err == nil || !strings.Contains(err.Error(), s.Packs[1].File) {
		t.Error(err)
	}
}

// It is stopped anywhere, a hundred times, and goes on after the packs that are done.
func TestStopped(t *testing.T) {
	records, want := backup(1000)
	c := newCluster(2, 2)
	o := quick(c, staged(t, records, 40))
	o.State = t.TempDir()
	stopped := 0
	for done := false; !done; {
		ctx, stop := context.WithCancel(t.Context())
		n, at := 0, 110+stopped
		c.mutex.Lock()
		c.before = func() {
			if n++; n == at {
				stop()
			}
		}
		c.mutex.Unlock()
		switch err := Run(ctx, o); {
		case err == nil:
			done = true
		case !errors.Is(err, context.Canceled):
			t.Fatal(err)
		default:
			stopped++
		}
		stop()
		time.Sleep(time.Millisecond) // answers to what was sent
	}
	equal(t, c, want)
	if stopped < 3 || !Done(o.State, "r/1") {
		t.Errorf("stopped %d times", stopped)
	}
	t.Logf("stopped %d times", stopped)
}

// The program dies at any change of a file, and the next goes on.
func TestKilled(t *testing.T) {
	records, want := backup(200)
	for n := 1; ; n++ {
		c := newCluster(2, 1)
		o := quick(c, staged(t, records, 50))
		o.State = t.TempDir()
		count := 0
		step = func(string) {
			if count++; count == n {
				panic("killed")
			}
		}
		killed := func() (dead bool) {
			defer func() { dead = recover() != nil }()
			if err := Run(t.Context(), o); err != nil {
				t.Error(err)
			}
			return false
		}()
		step = func(string) {}
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		equal(t, c, want)
		if !killed {
			if n != 6 {
				t.Errorf("%d steps for 4 packs and the end", n-1)
			}
			return
		}
	}
}

// What is written down of another backup, or cannot be read, does not count.
func TestCheckpoint(t *testing.T) {
	dir := t.TempDir()
	c, err := open(dir, stage.Staged{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	c.Packs["x"] = counts{Keys: 3}
	for i := range 10 {
		c.witness("at", fmt.Sprint(i))
		c.fail(fmt.Sprint(i % 2))
	}
	if err := c.write(); err != nil {
		t.Fatal(err)
	}
	again, err := open(dir, stage.Staged{ID: "a"})
	if err != nil || again.total().Keys != 3 || len(again.Witnesses["at"]) != 4 || len(again.Failures) != 2 {
		t.Errorf("%+v, %v", again, err)
	}
	if other, err := open(dir, stage.Staged{ID: "b"}); err != nil || len(other.Packs) != 0 {
		t.Errorf("%+v, %v", other, err)
	}
}

// An empty value looks like nothing, on the disk tier with its type.
func TestJudgeEmpty(t *testing.T) {
	tombstone := &item{Record: stage.Record{Key: "k", Lattice: wire.TypeLWW, Payload: wire.AppendLWW(nil, wire.LWW{Timestamp: 7})}}
	value := &item{Record: stage.Record{Key: "k", Lattice: wire.TypeLWW, Payload: wire.AppendLWW(nil, wire.LWW{Timestamp: 7, Value: []byte("v")})}}
	for _, found := range []wire.Tuple{{Error: wire.KeyDNE}, {Error: wire.KeyDNE, Lattice: wire.TypeLWW}} {
		if v, err := tombstone.judge(found); v != same || err != nil {
			t.Errorf("%+v: %v, %v", found, v, err)
		}
		if v, err := value.judge(found); v != missing || err != nil {
			t.Errorf("a value, %+v: %v, %v", found, v, err)
		}
	}
}
