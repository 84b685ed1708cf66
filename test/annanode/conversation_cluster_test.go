package annanode

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode/zmtp"
)

func members(t *testing.T, w world) wire.Membership {
	t.Helper()
	b, err := zmtp.Ask(t.Context(), address(w.routing(), wire.PortSeed, 0), []byte("join"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := wire.ParseMembership(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func servers(t *testing.T, _ *talker, w world, tier wire.Tier) []wire.Server {
	t.Helper()
	m := members(t, w)
	return m.Of(tier)
}

func talkLookupsFirst(t *testing.T, w world, k *talker) {
	got := k.lookup(w.routing(), "a", "b")
	if got.Error != wire.NoServers || len(got.Addresses) != 2 || len(got.Addresses[0].IPs)+len(got.Addresses[1].IPs) != 0 {
		t.Errorf("without a node: %+v", got)
	}
	if m := members(t, w); len(m.Of(wire.Memory)) != 0 {
		t.Errorf("without a node: members %+v", m)
	}
	node := w.add(t, wire.Memory)
	if m := servers(t, k, w, wire.Memory); len(m) != 1 || m[0] != node {
		t.Errorf("members: %+v", m)
	}
	// At the first key that is new the rest is forgotten.
	for _, want := range []string{"n1", "n2", "n3"} {
		got := k.lookup(w.routing(), "n1", "n2", "n3")
		if len(got.Addresses) != 1 || got.Addresses[0].Key != want || len(got.Addresses[0].IPs) != 1 || got.Error != 0 {
			t.Errorf("the first lookup of %s: %+v", want, got)
		}
	}
	if got := k.lookup(w.routing(), "n1", "n2", "n3"); len(got.Addresses) != 3 {
		t.Errorf("a lookup of known keys: %+v", got)
	}
	if got := k.lookup(w.routing(), "", "n1"); len(got.Addresses) != 2 || len(got.Addresses[0].IPs) != 0 || len(got.Addresses[1].IPs) != 1 {
		t.Errorf("a lookup of the empty key: %+v", got)
	}
	// The ring is that of libstdc++'s hash: routing and this package agree.
	cfg := Config{Threads: Threads{2, 1, 1}}.withDefaults()
	v := newView(&cfg)
	v.nodes[wire.Memory].join(node, 0)
	for i := range 100 {
		key := keyNumber(i)
		owners, _ := v.owners(key, v.defaults, wire.Memory)
		if at := k.owner(w.routing(), key); at != owners[0].requests() {
			t.Errorf("%s is with %s, not %s", key, at, owners[0].requests())
		}
		meta := wire.ReplicationKey(key)
		if at := k.owner(w.routing(), meta); at != v.metadataOwners(meta)[0].requests() {
			t.Errorf("%s is with %s, not %s", meta, at, v.metadataOwners(meta)[0].requests())
		}
	}
	// A join of the same address with another public one changes nothing; a departed
	// node is gone, and comes back with a replayed join.
	tell := func(message string) { k.send(address(w.routing(), wire.PortNotify, 0), []byte(message)) }
	tell(wire.JoinMessage(wire.Memory, wire.Server{Public: "192.0.2.1", Private: node.Private}, 0))
	tell(wire.DepartMessage(wire.Disk, node))
	if m := servers(t, k, w, wire.Memory); len(m) != 1 || m[0] != node {
		t.Errorf("after a join again: %+v", m)
	}
	tell(wire.DepartMessage(wire.Memory, node))
	eventually(t, "the departed node is gone", func() bool { return len(servers(t, k, w, wire.Memory)) == 0 })
	if got := k.lookup(w.routing(), "n1"); got.Error != wire.NoServers {
		t.Errorf("after the departure: %+v", got)
	}
	tell(wire.JoinMessage(wire.Memory, node, 0))
	eventually(t, "the node is back", func() bool { return len(servers(t, k, w, wire.Memory)) == 1 })
	hold(t, k, w.routing(), []step{put("n1", wire.TypeLWW, lww(1, "x")), get("n1", wire.TypeLWW, lww(1, "x"))})
}

// talkThreads: how requests of several keys are answered, and those to the wrong
// thread.
func talkThreads(t *testing.T, w world, k *talker) {
	node := w.add(t, wire.Memory)
	at := []string{address(node.Public, wire.PortRequest, 0), address(node.Public, wire.PortRequest, 1)}
	mine := [2][]wire.Tuple{}
	for _, tuple := range values(40) {
		i := slices.Index(at, k.owner(w.routing(), tuple.Key))
		mine[i] = append(mine[i], tuple)
	}
	first := mine[0][:8]
	// New to the thread: an answer each. Known: one for all.
	if got := k.request(at[0], wire.Put, first...); len(got) != 8 {
		t.Errorf("8 new keys are answered in %d responses", len(got))
	}
	if got := k.request(at[0], wire.Get, first...); len(got) != 1 || len(got[0].Tuples) != 8 || got[0].Kind != wire.Get {
		t.Errorf("8 known keys: %+v", got)
	} else {
		for i, tuple := range got[0].Tuples {
			if tuple.Key != first[i].Key {
				t.Errorf("the answer %d is of %s", i, tuple.Key)
			}
		}
	}
	mixed := append(slices.Clone(first[:2]), mine[0][8], first[3], mine[0][9])
	if got := k.request(at[0], wire.Get, mixed...); len(got) != 3 {
		t.Errorf("3 known and 2 new keys are answered in %d responses", len(got))
	}
	// The wrong thread, with keys new to it and not; metadata.
	for range 2 {
		for _, kind := range []wire.Kind{wire.Get, wire.Put} {
			got := k.one(at[1], kind, first[0])
			if got.Error != wire.WrongThread || got.Lattice != wire.None || len(got.Payload) != 0 {
				t.Errorf("%v at the wrong thread: %+v", kind, got)
			}
		}
	}
	for i := range 8 {
		key := fmt.Sprintf("ANNA_METADATA|something|%d", i)
		to := k.owner(w.routing(), key)
		wrong := at[1-slices.Index(at, to)]
		tuple := wire.Tuple{Key: key, Lattice: wire.TypeLWW, Payload: lww(3, "meta")}
		if got := k.one(wrong, wire.Put, tuple); got.Error != wire.WrongThread || got.Lattice != wire.TypeLWW {
			t.Errorf("metadata at the wrong thread: %+v", got)
		}
		if got := k.one(to, wire.Put, tuple); got.Error != 0 || got.Lattice != wire.TypeLWW {
			t.Errorf("metadata: %+v", got)
		}
		if got := k.one(to, wire.Get, wire.Tuple{Key: key}); got.Error != 0 || string(got.Payload) != string(lww(3, "meta")) {
			t.Errorf("metadata: %+v", got)
		}
	}
	// Without an address nobody is answered, and it is done.
	r := wire.KeyRequest{Kind: wire.Put, Tuples: mine[1][:1], ID: "no address"}
	k.send(at[1], r.Append(nil))
	eventually(t, "a PUT without an address is done", func() bool {
		return k.one(at[1], wire.Get, wire.Tuple{Key: mine[1][0].Key}).Error == wire.NoError
	})
}

// stamp is when a thread's report was written; 0 is never.
func reportOf(t *testing.T, k *talker, routing string, s wire.Server, tid int, tier wire.Tier) (uint64, []byte, wire.Tuple) {
	t.Helper()
	key := wire.SizeKey(s, tid, tier)
	tuple := k.one(k.owner(routing, key), wire.Get, wire.Tuple{Key: key})
	v, err := wire.ParseLWW(tuple.Payload)
	if err != nil {
		t.Fatal(err)
	}
	return v.Timestamp, v.Value, tuple
}

// list waits until a report has a key, and tells what it lists.
func list(t *testing.T, k *talker, routing string, s wire.Server, tid int, tier wire.Tier, until string) map[string]uint32 {
	t.Helper()
	var listed map[string]uint32
	eventually(t, until+" is listed", func() bool {
		listed = map[string]uint32{}
		_, sizes, _ := reportOf(t, k, routing, s, tid, tier)
		for size, err := range wire.KeySizes(sizes) {
			if err != nil {
				t.Fatal(err)
			}
			listed[strings.Clone(size.Key)] = size.Size
		}
		_, ok := listed[until]
		return ok
	})
	return listed
}

func talkLists(t *testing.T, w world, k *talker) {
	node := w.add(t, wire.Memory)
	routing := w.routing()
	if stamp, _, tuple := reportOf(t, k, routing, node, 7, wire.Memory); stamp != 0 || tuple.Error != wire.KeyDNE || tuple.Lattice != wire.None {
		t.Errorf("the report of a thread that is not: %+v", tuple)
	}
	// An empty list is an empty value: not there, with its stamp.
	var stamp uint64
	eventually(t, "an empty list is reported", func() bool {
		at, sizes, tuple := reportOf(t, k, routing, node, 1, wire.Memory)
		stamp = at
		return at > 0 && len(sizes) == 0 && tuple.Error == wire.KeyDNE && tuple.Lattice == wire.TypeLWW
	})
	if age := time.Since(time.UnixMilli(int64(stamp / 10))); age < -time.Second || age > time.Minute || stamp%10 != 1 {
		t.Errorf("stamp %d is %v old", stamp, age)
	}
	hold(t, k, routing, []step{
		put("five", wire.TypeLWW, lww(1, "12345")), put("three", wire.TypeSet, set("long elements", "b", "c")),
		put("empty", wire.TypeLWW, lww(1, "")), refused("refused", wire.None, nil),
		put("both", wire.TypeSingleCausal, causal(clock{"a": 1, "b": 1}, "one")),
		put("first", wire.TypePriority, priority(1, "1234")),
	})
	want := map[string]uint32{"five": 13, "three": 3, "empty": 8, "both": 17, "first": 12}
	got := map[string]uint32{}
	eventually(t, "all keys are listed", func() bool {
		clear(got)
		for tid := range 2 {
			_, sizes, _ := reportOf(t, k, routing, node, tid, wire.Memory)
			for size, err := range wire.KeySizes(sizes) {
				if err != nil {
					t.Fatal(err)
				}
				if _, twice := got[size.Key]; twice {
					t.Errorf("%s is listed twice", size.Key)
				}
				got[strings.Clone(size.Key)] = size.Size
			}
		}
		return len(got) == len(want)
	})
	for key, size := range want {
		if got[key] != size {
			t.Errorf("%s is listed with size %d, want %d", key, got[key], size)
		}
	}
}

func talkGossip(t *testing.T, w world, k *talker) {
	if err := makeDir(w.root() + "/ebs_0"); err != nil {
		t.Fatal(err)
	}
	w.add(t, wire.Memory)
	disk := w.add(t, wire.Disk)
	hold(t, k, w.routing(), []step{put("a", wire.TypeSet, set("x")), put("empty", wire.TypeLWW, lww(1, ""))})
	at := address(disk.Public, wire.PortRequest, 0)
	eventually(t, "the value is on disk", func() bool {
		got := k.one(at, wire.Get, wire.Tuple{Key: "a"})
		return got.Error == 0 && string(got.Payload) == string(set("x"))
	})
	// Tombstones do not travel.
	if got := k.one(at, wire.Get, wire.Tuple{Key: "empty"}); got.Error != wire.KeyDNE || got.Lattice != wire.None {
		t.Errorf("an empty value on disk: %+v", got)
	}
	// A copy on disk of a key that is in memory is not listed.
	eventually(t, "the disk node has reported", func() bool {
		stamp, sizes, _ := reportOf(t, k, w.routing(), disk, 0, wire.Disk)
		return stamp > 0 && len(sizes) == 0
	})
	if at := k.lookup(w.routing(), "a").Addresses[0].IPs; len(at) != 1 || strings.Contains(at[0], disk.Public+":") {
		t.Errorf("clients are sent to %v", at)
	}
}

// talkReplication: factors of one key, in its metadata, before anybody knows it.
func talkReplication(t *testing.T, w world, k *talker) {
	w.add(t, wire.Memory)
	w.add(t, wire.Memory)
	name := wire.ReplicationKey("twice")
	hold(t, k, w.routing(), []step{put(name, wire.TypeLWW, wire.AppendLWW(nil, wire.LWW{
		Timestamp: 1, Value: AppendFactors(nil, "twice", Replication{Memory: 2, Local: 1}),
	}))})
	at := k.lookup(w.routing(), "twice").Addresses[0].IPs
	if len(at) != 2 {
		t.Fatalf("a key of two replicas is with %v", at)
	}
	if got := k.one(at[0], wire.Put, wire.Tuple{Key: "twice", Lattice: wire.TypeSet, Payload: set("a"), AddressCacheSize: 2}); got.Error != 0 {
		t.Errorf("%+v", got)
	}
	if got := k.one(at[0], wire.Get, wire.Tuple{Key: "twice", AddressCacheSize: 1}); !got.Invalidate {
		t.Errorf("a wrong number of owners: %+v", got)
	}
	k.one(at[1], wire.Put, wire.Tuple{Key: "twice", Lattice: wire.TypeSet, Payload: set("b")})
	for _, to := range at {
		eventually(t, "both replicas have both", func() bool {
			return same(wire.TypeSet, k.one(to, wire.Get, wire.Tuple{Key: "twice"}).Payload, set("a", "b"))
		})
	}
}
