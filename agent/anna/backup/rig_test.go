package backup

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"filippo.io/age"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/pack"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// anna is a node as a backup sees it. Every second look at a thread's report finds
// another one.
type anna struct {
	mutex   sync.Mutex
	threads []map[string]wire.Tuple
	order   [][]string            // of the keys in the lists
	moved   map[string]wire.Tuple // what Find finds
	looks   map[int]uint64
	early   func(tid int, stamp uint64) bool // whether a report still lacks what was written last
	got     int
	found   int
	before  func(keys []string) // called with each Get
}

func newAnna(threads int) *anna {
	a := &anna{moved: map[string]wire.Tuple{}, looks: map[int]uint64{}}
	for range threads {
		a.threads = append(a.threads, map[string]wire.Tuple{})
		a.order = append(a.order, nil)
	}
	return a
}

func (a *anna) put(tid int, key string, lattice wire.Lattice, payload []byte) {
	if _, is := a.threads[tid][key]; !is {
		a.order[tid] = append(a.order[tid], key)
	}
	a.threads[tid][key] = wire.Tuple{Key: key, Lattice: lattice, Payload: payload}
}

func lww(stamp uint64, value string) []byte {
	return wire.AppendLWW(nil, wire.LWW{Timestamp: stamp, Value: []byte(value)})
}

func (a *anna) fill(n int) {
	for i := range n {
		tid := i % len(a.threads)
		key := fmt.Sprintf("key-%06d", i)
		switch i % 10 {
		case 7:
			a.put(tid, key, wire.TypeSet, wire.AppendSet(nil, wire.Set{Values: [][]byte{[]byte(key), []byte("b"), []byte("a")}}))
		case 8:
			a.put(tid, key, wire.TypePriority, wire.AppendPriority(nil, wire.Priority{Priority: float64(i), Value: []byte(key)}))
		default:
			a.put(tid, key, wire.TypeLWW, lww(uint64(i), "value of "+key))
		}
	}
}

func (a *anna) Members(context.Context) (wire.Membership, error) {
	return wire.Membership{Tiers: []wire.TierServers{{Tier: wire.Memory, Servers: []wire.Server{self, {Public: "10.0.0.9", Private: "10.0.0.9"}}}}}, nil
}

var self = wire.Server{Public: "203.0.113.7", Private: "anna-memory-0.anna-memory.hydro.svc.cluster.local"}

func (a *anna) Report(ctx context.Context, s wire.Server, tier wire.Tier, tid int) (client.Report, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if tid >= len(a.threads) {
		return client.Report{Never: true}, nil
	}
	a.looks[tid]++
	stamp := 1 + a.looks[tid]/2
	var sizes []byte
	for _, key := range a.order[tid] {
		if a.early == nil || !a.early(tid, stamp) || !strings.HasPrefix(key, "late") {
			sizes = wire.AppendKeySize(sizes, wire.KeySize{Key: key, Size: uint32(len(a.threads[tid][key].Payload))})
		}
	}
	return client.Report{Stamp: stamp, Sizes: sizes}, nil
}

func (a *anna) Get(ctx context.Context, at string, keys []string) ([]wire.Tuple, error) {
	_, port, err := wire.ParseAddress(at)
	if err != nil {
		return nil, err
	}
	if a.before != nil {
		a.before(keys)
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.got += len(keys)
	tuples := make([]wire.Tuple, len(keys))
	for i, key := range keys {
		t, is := a.threads[port-wire.PortRequest][key]
		if !is {
			t = wire.Tuple{Error: wire.KeyDNE}
		}
		t.Key = key
		tuples[i] = t
	}
	return tuples, nil
}

func (a *anna) Find(ctx context.Context, keys []string) ([]wire.Tuple, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.found += len(keys)
	tuples := make([]wire.Tuple, len(keys))
	for i, key := range keys {
		t, is := a.moved[key]
		if !is {
			t = wire.Tuple{Error: wire.KeyDNE}
		}
		t.Key = key
		tuples[i] = t
	}
	return tuples, nil
}

// rig is a bucket and a job for it.
type rig struct {
	*testing.T
	bucket *blob.Bucket
	store  *store.Store
	job    Job

	progress func(Progress)
}

func newRig(t *testing.T, recipients ...string) *rig {
	bucket := memblob.OpenBucket(nil)
	t.Cleanup(func() { bucket.Close() })
	s, err := store.New(bucket, store.Config{Prefix: "hydro_anna", Recipients: recipients})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, bucket, s, Job{Name: "b1", Node: "anna-memory-0", Cluster: "anna", Role: "memory", Self: self, Tier: wire.Memory,
		Scratch: t.TempDir()}, nil}
}

func (r *rig) run(name string, a Source) manifest.Manifest {
	r.Helper()
	m, err := r.try(name, a)
	if err != nil {
		r.Fatal(err)
	}
	return m
}

// try makes a backup in a time of its own, in which waiting for reports takes none.
func (r *rig) try(name string, a Source) (m manifest.Manifest, err error) {
	r.Helper()
	r.job.Name = name
	synctest.Test(r.T, func(t *testing.T) { m, err = Run(t.Context(), r.job, a, r.store, r.progress) })
	return m, err
}

// records reads a backup as it is in the bucket.
func (r *rig) records(name string, identities ...age.Identity) map[string]pack.Record {
	r.Helper()
	m, err := r.store.Manifest(r.Context(), name, r.job.Node)
	if err != nil {
		r.Fatal(err)
	}
	all := map[string]pack.Record{}
	for _, p := range m.Packs {
		if err := r.store.ReadPack(r.Context(), p, m.Encrypted, identities, func(rec pack.Record) error {
			key := strings.Clone(rec.Key)
			if _, is := all[key]; is {
				r.Errorf("key %s is there twice", key)
			}
			all[key] = pack.Record{Key: key, Lattice: rec.Lattice, Payload: bytes.Clone(rec.Payload)}
			return nil
		}); err != nil {
			r.Fatal(err)
		}
	}
	if m.Keys != int64(len(all)) {
		r.Errorf("the manifest says %d keys, and there are %d", m.Keys, len(all))
	}
	return all
}

// same compares a backup with what a node has.
func (r *rig) same(name string, a *anna, identities ...age.Identity) {
	r.Helper()
	got := r.records(name, identities...)
	n := 0
	for _, thread := range a.threads {
		n += len(thread)
		for key, want := range thread {
			if have := got[key]; have.Lattice != want.Lattice || !bytes.Equal(have.Payload, want.Payload) {
				r.Fatalf("%s: %+v, want %+v", key, have, want)
			}
		}
	}
	if n != len(got) {
		r.Errorf("%d keys, want %d", len(got), n)
	}
}

func (r *rig) objects(below string) int {
	r.Helper()
	n := 0
	for list := r.bucket.List(&blob.ListOptions{Prefix: "hydro_anna/anna/" + below}); ; n++ {
		if _, err := list.Next(r.Context()); err != nil {
			return n
		}
	}
}
