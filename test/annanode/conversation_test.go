package annanode

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// world is a cluster that a conversation is held with: of test nodes, or of Anna.
type world interface {
	// routing is the routing node, there before any other; client is where the talker
	// can be reached.
	routing() string
	client() string
	// add starts a node and waits until it serves.
	add(t *testing.T, tier wire.Tier) wire.Server
	// settle waits until what was PUT has been gossiped.
	settle(t *testing.T)
	// told waits until a thread of a node has taken note that another joined, or departed.
	told(t *testing.T, node wire.Server, tid int, about wire.Server, joined bool)
	// root is the directory of the disk tier, the same for all its nodes.
	root() string
}

// spec is what a world is to be.
type spec struct {
	threads     Threads
	replication Replication
}

// scenarios are conversations that are the same with both.
var scenarios = []struct {
	name string
	spec spec
	talk func(*testing.T, world, *talker)
}{
	{"lookups", spec{Threads{2, 1, 1}, Replication{1, 0, 1}}, talkLookupsFirst},
	{"memory values", spec{Threads{1, 1, 1}, Replication{1, 0, 1}}, talkMemoryValues},
	{"disk values", spec{Threads{1, 1, 1}, Replication{0, 1, 1}}, talkDiskValues},
	{"threads", spec{Threads{2, 1, 1}, Replication{1, 0, 1}}, talkThreads},
	{"lists", spec{Threads{2, 1, 1}, Replication{1, 0, 1}}, talkLists},
	{"gossip to disk", spec{Threads{1, 1, 1}, Replication{1, 1, 1}}, talkGossip},
	{"replication", spec{Threads{1, 1, 1}, Replication{1, 0, 1}}, talkReplication},
	{"few keys join", spec{Threads{1, 1, 1}, Replication{1, 0, 1}}, talkSmallJoin},
	{"a thread is told of a peer", spec{Threads{2, 1, 1}, Replication{1, 0, 1}}, talkTold},
	{"many keys join", spec{Threads{1, 1, 1}, Replication{1, 0, 1}}, talkLargeJoin},
	{"a vanished reader", spec{Threads{1, 1, 1}, Replication{1, 0, 1}}, talkVanished},
	{"more replicas than nodes", spec{Threads{1, 1, 1}, Replication{2, 0, 1}}, talkEndless},
	{"no memory node", spec{Threads{1, 1, 1}, Replication{0, 1, 1}}, talkNoMemory},
	{"an empty key", spec{Threads{1, 1, 1}, Replication{1, 0, 1}}, talkEmptyKey},
	{"self-depart", spec{Threads{1, 1, 1}, Replication{1, 0, 1}}, talkSelfDepart},
	{"threads depart", spec{Threads{2, 1, 1}, Replication{1, 0, 1}}, talkDepartThreads},
}

type nodeWorld struct {
	cfg ClusterConfig
	c   *Cluster
	at  string
	dir string
}

func newNodeWorld(t *testing.T, s spec) world {
	w := &nodeWorld{dir: t.TempDir(), at: freeHost(t)}
	hosts, err := FreeHosts(1)
	if err != nil {
		t.Fatal(err)
	}
	w.cfg = ClusterConfig{
		Threads: s.threads, Replication: s.replication, Root: func(string) string { return w.dir },
		Report: 300 * time.Millisecond, Gossip: 200 * time.Millisecond,
	}
	w.c = &Cluster{Config: w.cfg}
	t.Cleanup(w.c.Close)
	if _, err := w.c.AddAt(t.Context(), wire.Routing, hosts[0]); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *nodeWorld) routing() string { return w.c.RoutingHosts()[0] }
func (w *nodeWorld) client() string  { return w.at }
func (w *nodeWorld) root() string    { return w.dir }

func (w *nodeWorld) settle(t *testing.T) {
	eventually(t, "nothing is left to gossip", func() bool {
		left := 0
		for _, n := range w.c.Nodes {
			for _, k := range n.kvs {
				k.do(func() { left += len(k.changed) })
			}
		}
		return left == 0
	})
}

func (w *nodeWorld) told(t *testing.T, node wire.Server, tid int, about wire.Server, joined bool) {
	eventually(t, "a thread takes note of a node", func() bool {
		known := !joined
		for _, n := range w.c.Nodes {
			if n.cfg.Private == node.Private {
				k := n.kvs[tid]
				k.do(func() {
					known = slices.ContainsFunc(k.view.nodes[wire.Memory].members, func(m *member) bool { return m != nil && m.Private == about.Private })
				})
			}
		}
		return known == joined
	})
}

func (w *nodeWorld) add(t *testing.T, tier wire.Tier) wire.Server {
	n, err := w.c.Add(t.Context(), tier)
	if err != nil {
		t.Fatal(err)
	}
	return n.Server()
}

func TestConversations(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newNodeWorld(t, s.spec)
			s.talk(t, w, newTalker(t, w.client()))
		})
	}
}

func talkMemoryValues(t *testing.T, w world, k *talker) {
	w.add(t, wire.Memory)
	hold(t, k, w.routing(), append(valueSteps(),
		// Empty values: not there, and yet with type and payload.
		put("empty lww", wire.TypeLWW, lww(5, "")),
		missing("empty lww", wire.TypeLWW, lww(5, "")),
		refused("empty lww", wire.TypeSet, set("a")),
		put("lww", wire.TypeLWW, lww(1000, "")),
		missing("lww", wire.TypeLWW, lww(1000, "")),
		put("empty set", wire.TypeSet, nil),
		missing("empty set", wire.TypeSet, nil),
		put("empty ordered", wire.TypeOrderedSet, nil),
		get("empty ordered", wire.TypeOrderedSet, nil),
		put("empty single", wire.TypeSingleCausal, causal(clock{"a": 1})),
		missing("empty single", wire.TypeSingleCausal, causal(clock{"a": 1})),
		put("lww 0", wire.TypeLWW, lww(0, "zero")),
		get("lww 0", wire.TypeLWW, lww(0, "zero")),

		put("priority", wire.TypePriority, priority(3, "three")),
		get("priority", wire.TypePriority, priority(3, "three")),
		put("priority", wire.TypePriority, priority(4, "four")),
		put("priority", wire.TypePriority, priority(3, "equal loses")),
		get("priority", wire.TypePriority, priority(3, "three")),
		put("priority", wire.TypePriority, priority(-1, "lowest")),
		get("priority", wire.TypePriority, priority(-1, "lowest")),
		put("too low a priority", wire.TypePriority, priority(3e9, "x")),
		missing("too low a priority", wire.TypePriority, priority(2147483647, "")),

		put("with/slash", wire.TypeLWW, lww(1, "x")),
		get("with/slash", wire.TypeLWW, lww(1, "x")),
		put("with|bar", wire.TypeLWW, lww(1, "x")),
		get("with|bar", wire.TypeLWW, lww(1, "x")),
		put("large", wire.TypeLWW, lww(1, strings.Repeat("x", 3<<20))),
		get("large", wire.TypeLWW, lww(1, strings.Repeat("x", 3<<20))),
	))
	// The last owners of a key are told from the client's number of them.
	at := k.owner(w.routing(), "lww")
	for size, want := range map[uint32]bool{0: false, 1: false, 2: true} {
		got := k.one(at, wire.Get, wire.Tuple{Key: "lww 0", AddressCacheSize: size})
		if got.Invalidate != want {
			t.Errorf("address cache size %d: invalidate %v", size, got.Invalidate)
		}
	}
}

func talkDiskValues(t *testing.T, w world, k *talker) {
	w.add(t, wire.Memory)
	dir := filepath.Join(w.root(), "ebs_0")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"torn": lww(7, "cut here")[:5], "left": lww(7, "from before"), "hollow": {}, "left set": set("x"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.add(t, wire.Disk)
	hold(t, k, w.routing(), append(valueSteps(),
		put("empty lww", wire.TypeLWW, lww(5, "")),
		missing("empty lww", wire.TypeLWW, nil), // without the payload it has in memory
		put("empty set", wire.TypeSet, nil),
		missing("empty set", wire.TypeSet, nil),
		put("empty ordered", wire.TypeOrderedSet, nil),
		get("empty ordered", wire.TypeOrderedSet, nil),

		put("priority", wire.TypePriority, priority(3, "three")),
		missing("priority", wire.TypePriority, nil), // a file of no bytes
		put("negative", wire.TypePriority, priority(-3, "three")),
		get("negative", wire.TypePriority, priority(-3, "three")),
		put("negative", wire.TypePriority, priority(-2, "two")),
		get("negative", wire.TypePriority, priority(-3, "three")),

		put("with/slash", wire.TypeLWW, lww(1, "lost")),
		missing("with/slash", wire.TypeLWW, nil),

		missing("left", wire.None, nil), // files are not read at start
		put("left", wire.TypeLWW, lww(0, "")),
		get("left", wire.TypeLWW, lww(7, "from before")),
		put("left set", wire.TypeSet, set("y")),
		get("left set", wire.TypeSet, set("x", "y")),
		put("torn", wire.TypeLWW, lww(9, "newer")),
		missing("torn", wire.TypeLWW, nil),
		put("hollow", wire.TypeLWW, lww(9, "newer")),
		get("hollow", wire.TypeLWW, lww(9, "newer")),
	))
	for name, want := range map[string][]byte{
		"lww": lww(100, "equal wins"), "torn": lww(7, "cut here")[:5], "priority": {}, "negative": priority(-3, "three"),
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("file %s: %q, %v; want %q", name, got, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "lww")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode: %v, %v", info, err)
	}

	// Without its directory a PUT is acknowledged and lost, and works once it is there.
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	hold(t, k, w.routing(), []step{
		put("nowhere", wire.TypeLWW, lww(1, "lost")),
		missing("nowhere", wire.TypeLWW, nil),
	})
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	hold(t, k, w.routing(), []step{
		put("nowhere", wire.TypeLWW, lww(1, "found")),
		get("nowhere", wire.TypeLWW, lww(1, "found")),
		get("lww", wire.TypeLWW, lww(100, "equal wins")),
	})
	// What is listed: everything that has a type.
	listed := list(t, k, w.routing(), servers(t, k, w, wire.Disk)[0], 0, wire.Disk, "nowhere")
	for key, want := range map[string]uint32{"torn": 0, "lww": uint32(len(lww(100, "equal wins"))), "with/slash": failed, "empty lww": 2} {
		if size, ok := listed[key]; !ok || size != want {
			t.Errorf("%s is listed: %v, as %d, want %d", key, ok, size, want)
		}
	}
}

func values(n int) []wire.Tuple {
	var all []wire.Tuple
	for i := range n {
		all = append(all, wire.Tuple{Key: keyNumber(i), Lattice: wire.TypeLWW, Payload: lww(1, fmt.Sprint("value ", i))})
	}
	return all
}

func makeDir(dir string) error { return os.MkdirAll(dir, 0o755) }
