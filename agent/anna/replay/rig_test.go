package replay

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/lattice"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// cluster is Anna in memory, as its clients see it. It counts what is outstanding.
type cluster struct {
	mutex   sync.Mutex
	threads []string
	servers []wire.Server
	data    map[string]map[string]wire.Tuple // by thread and key

	outstanding, most int
	lookups, puts     map[string]int // of keys
	requests          int            // PUTs
	delay             time.Duration
	enough            int // so many tuples are out before the first of them is answered
	full              chan struct{}

	// What is to go wrong, each with the mutex held; nil: nothing.
	onLookup func(key string) error
	onPut    func(at string, t wire.Tuple) (client.PutResult, bool)
	before   func() // of each request
}

func newCluster(nodes, threads int) *cluster {
	c := &cluster{data: map[string]map[string]wire.Tuple{}, lookups: map[string]int{}, puts: map[string]int{}}
	for n := range nodes {
		host := fmt.Sprintf("memory-%d.memory.ns.svc.cluster.local", n)
		c.servers = append(c.servers, wire.Server{Public: host, Private: host})
		for t := range threads {
			at := fmt.Sprintf("tcp://%s:%d", host, wire.PortRequest+t)
			c.threads = append(c.threads, at)
			c.data[at] = map[string]wire.Tuple{}
		}
	}
	return c
}

// work is the time in which tuples are out.
func (c *cluster) work(ctx context.Context, n int) error {
	c.mutex.Lock()
	if c.before != nil {
		c.before()
	}
	c.outstanding += n
	c.most = max(c.most, c.outstanding)
	delay, full := c.delay, c.full
	if c.most >= c.enough && full != nil {
		close(full)
		c.full, full = nil, nil
	}
	c.mutex.Unlock()
	defer func() {
		c.mutex.Lock()
		c.outstanding -= n
		c.mutex.Unlock()
	}()
	if full != nil {
		select {
		case <-full:
		case <-time.After(time.Minute): // so many never come
		case <-ctx.Done():
		}
	}
	if delay > 0 {
		return sleep(ctx, time.Duration(rand.Int64N(int64(delay))))
	}
	return ctx.Err()
}

func (c *cluster) Members(context.Context) (wire.Membership, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return wire.Membership{Tiers: []wire.TierServers{{Tier: wire.Memory, Servers: slices.Clone(c.servers)}}}, nil
}

func (c *cluster) owner(key string) string {
	h := fnv.New32a()
	h.Write([]byte(key))
	return c.threads[int(h.Sum32())%len(c.threads)]
}

func (c *cluster) Owners(ctx context.Context, key string) ([]string, error) {
	if err := c.work(ctx, 1); err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.lookups[key]++
	if c.onLookup != nil {
		if err := c.onLookup(key); err != nil {
			return nil, err
		}
	}
	return []string{c.owner(key)}, nil
}

func (c *cluster) Get(ctx context.Context, at string, keys []string) ([]wire.Tuple, error) {
	if err := c.work(ctx, len(keys)); err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var found []wire.Tuple
	for _, key := range keys {
		t, ok := c.data[at][key]
		switch {
		case c.owner(key) != at:
			t = wire.Tuple{Key: key, Error: wire.WrongThread}
		case !ok:
			t = wire.Tuple{Key: key, Error: wire.KeyDNE}
		}
		found = append(found, t)
	}
	return found, nil
}

func (c *cluster) Put(ctx context.Context, at string, tuples []wire.Tuple) ([]client.PutResult, error) {
	if err := c.work(ctx, len(tuples)); err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.requests++
	var results []client.PutResult
	for _, t := range tuples {
		c.puts[t.Key]++
		if c.onPut != nil {
			if r, is := c.onPut(at, t); is {
				results = append(results, r)
				continue
			}
		}
		if c.owner(t.Key) != at {
			results = append(results, client.PutResult{Key: t.Key, Code: wire.WrongThread})
			continue
		}
		results = append(results, c.set(at, t))
	}
	return results, nil
}

func (c *cluster) set(at string, t wire.Tuple) client.PutResult {
	have, ok := c.data[at][t.Key]
	if ok && have.Lattice != t.Lattice {
		return client.PutResult{Key: t.Key, Refused: true}
	}
	if ok {
		merged, err := lattice.Merge(t.Lattice, have.Payload, t.Payload)
		if err != nil {
			return client.PutResult{Key: t.Key, Refused: true}
		}
		t.Payload = merged
	}
	c.data[at][t.Key] = wire.Tuple{Key: t.Key, Lattice: t.Lattice, Payload: slices.Clone(t.Payload)}
	return client.PutResult{Key: t.Key, Done: true}
}

// all is what the cluster has, in canonical form.
func (c *cluster) all(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, at := range c.threads {
		for key, tuple := range c.data[at] {
			text, err := lattice.Canonical(tuple.Lattice, tuple.Payload)
			if err != nil {
				t.Fatal(err)
			}
			all[key] = fmt.Sprintf("%v %x", tuple.Lattice, text)
		}
	}
	return all
}

// backup is n records of all types, and what a cluster has of them.
func backup(n int) ([]stage.Record, map[string]string) {
	var records []stage.Record
	want := map[string]string{}
	for i := range n {
		r := stage.Record{Key: fmt.Sprintf("key-%05d", i), Lattice: wire.Lattice(1 + i%6)}
		value := fmt.Appendf(nil, "value %d", i)
		switch r.Lattice {
		case wire.TypeLWW:
			r.Payload = wire.AppendLWW(nil, wire.LWW{Timestamp: uint64(1000 + i), Value: value})
		case wire.TypeSet, wire.TypeOrderedSet:
			r.Payload = wire.AppendSet(nil, wire.Set{Values: [][]byte{value, []byte("a")}})
		case wire.TypeSingleCausal:
			r.Payload = wire.AppendSingleCausal(nil, wire.SingleCausal{Clock: map[string]uint32{"c": uint32(i)}, Values: [][]byte{value}})
		case wire.TypeMultiCausal:
			r.Payload = wire.AppendMultiCausal(nil, wire.MultiCausal{Clock: map[string]uint32{"c": uint32(i)}, Values: [][]byte{value}})
		default:
			r.Payload = wire.AppendPriority(nil, wire.Priority{Priority: -float64(i), Value: value})
		}
		text, err := lattice.Canonical(r.Lattice, r.Payload)
		if err != nil {
			panic(err)
		}
		want[r.Key] = fmt.Sprintf("%v %x", r.Lattice, text)
		records = append(records, r)
	}
	return records, want
}

// staged writes records to packs of so many each.
func staged(t testing.TB, records []stage.Record, each int) stage.Staged {
	t.Helper()
	s := stage.Staged{ID: "r/1", Backup: "b", Dir: t.TempDir()}
	for part := range slices.Chunk(records, each) {
		w, err := stage.NewWriter(s.Dir, stage.Pack{File: fmt.Sprintf("p-%06d.records", len(s.Packs))})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range part {
			if err := w.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		p, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		s.Packs = append(s.Packs, p)
		s.Keys += p.Keys
		s.Bytes += p.Bytes
	}
	return s
}

// quick are options with which nothing waits long.
func quick(c Client, s stage.Staged) Options {
	return Options{Client: c, Staged: s, Pause: time.Millisecond, LongestPause: 5 * time.Millisecond, Check: 3}
}

func equal(t *testing.T, c *cluster, want map[string]string) {
	t.Helper()
	got := c.all(t)
	if maps.Equal(got, want) {
		return
	}
	for key := range want {
		if got[key] != want[key] {
			t.Errorf("%s is %s, want %s (%d of %d keys)", key, got[key], want[key], len(got), len(want))
			return
		}
	}
	t.Errorf("%d keys, want %d", len(got), len(want))
}

var errAny = errors.New("no route to host")
