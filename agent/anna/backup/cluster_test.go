package backup_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gocloud.dev/blob/memblob"

	"github.com/stategraft/stategraft/agent/anna/backup"
	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/lattice"
	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/pack"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode"
)

// The parts of all nodes together have every key of a cluster once, with its value and
// type; a second backup has nothing to add.
func TestCluster(t *testing.T) {
	const keys = 1500
	cluster, err := annanode.StartCluster(t.Context(), annanode.ClusterConfig{Routing: 1, Memory: 2, Threads: annanode.Threads{Memory: 2}, Report: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(t.Context(), client.Options{Listen: "127.0.0.1:0", Advertise: "127.0.0.1", Routing: cluster.RoutingHosts(), RoutingThreads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := map[string][32]byte{}
	var tuples []wire.Tuple
	for i := range keys {
		tuple := wire.Tuple{Key: fmt.Sprintf("key-%d", i), Lattice: wire.TypeLWW, Payload: wire.AppendLWW(nil, wire.LWW{Timestamp: uint64(i), Value: fmt.Append(nil, "value ", i)})}
		if i%5 == 0 {
			tuple.Lattice, tuple.Payload = wire.TypeSet, wire.AppendSet(nil, wire.Set{Values: [][]byte{fmt.Append(nil, i), []byte("b"), []byte("a")}})
		}
		tuples = append(tuples, tuple)
		if want[tuple.Key], err = lattice.Digest(tuple.Key, tuple.Lattice, tuple.Payload); err != nil {
			t.Fatal(err)
		}
	}
	if n := cluster.Load(slices.Values(tuples)); n != keys {
		t.Fatalf("%d keys are loaded", n)
	}
	bucket := memblob.OpenBucket(nil)
	defer bucket.Close()
	s, err := store.New(bucket, store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b1", "b2"} {
		got := map[string][32]byte{}
		for i, n := range cluster.Nodes {
			server := n.Server()
			// The nodes report more often than it is thought, so each look finds another report.
			m, err := backup.Run(t.Context(), backup.Job{Name: name, Node: fmt.Sprint("n-", i), Self: server, Tier: wire.Memory, Local: server.Public, Period: time.Second}, c, s, nil)
			if err != nil {
				t.Fatal(err)
			}
			if m.Threads != 2 || m.Missing.Count != 0 || len(m.Packs) != 1 || len(m.Nodes) != 2 {
				t.Errorf("%+v", m)
			}
			read(t, s, m, got)
		}
		if len(got) != keys {
			t.Errorf("%s: %d keys", name, len(got))
		}
		for key, digest := range want {
			if got[key] != digest {
				t.Fatalf("%s: %s is another", name, key)
			}
		}
	}
}

func read(t *testing.T, s *store.Store, m manifest.Manifest, to map[string][32]byte) {
	t.Helper()
	for _, p := range m.Packs {
		if err := s.ReadPack(t.Context(), p, m.Encrypted, nil, func(r pack.Record) error {
			digest, err := lattice.Digest(r.Key, r.Lattice, r.Payload)
			if _, is := to[string([]byte(r.Key))]; is {
				t.Errorf("%s is there twice", r.Key)
			}
			to[string([]byte(r.Key))] = digest
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
