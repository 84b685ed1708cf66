package realanna

import (
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/api/medusa"
	api "github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/test/kvs"
)

// TestRestore backs up a cluster of Anna, again and again, loses all of it, and writes it
// into one of another size, with other threads and addresses; a sidecar is killed in the
// middle of that. Then it does so over newer values, which stay.
func TestRestore(t *testing.T) {
	if outside(t) {
		return
	}
	net, storage := newNetwork(t), t.TempDir()
	d := kvs.Data{Keys: 50_000, Large: 50, Seed: 77}
	c := start(t, net, storage, 1, shape{memory: 2, ebs: 1, routing: 2, inMemory: 1, onDisk: 1}, 1, 2, 1)
	began := time.Now()
	if _, err := d.Load(t.Context(), c.client, 0, nil); err != nil {
		t.Fatal(err)
	}
	figure(t, "loaded with our client: %s", rate(d.Keys, time.Since(began)))
	empty := empties()
	c.put(empty)
	c.verify(d, "after loading", first)

	const backups = 5
	before := map[string]usage{}
	for i := range backups + 1 {
		for _, n := range c.data() {
			u := n.usage()
			if i == 1 { // after the first: each sidecar has one address
				before[n.name] = u
			}
			t.Logf("%s after %d backups: %+v", n.name, i, u)
		}
		if i == backups {
			break
		}
		name, mode := "full", medusa.BackupRequest_FULL
		if i > 0 {
			name, mode = "more-"+string(rune('0'+i)), medusa.BackupRequest_DIFFERENTIAL
		}
		took := c.backUp(name, mode)
		b := c.backup(name)
		keys := int64(0)
		for _, m := range b.Members {
			if m.Missing != nil {
				t.Errorf("backup %s of %s lacks %+v", name, m.Node, m.Missing)
			}
			keys += m.Keys
		}
		if !b.Complete || keys != int64(d.Keys+len(empty)) {
			t.Errorf("backup %s has %d keys: %+v", name, keys, b)
		}
		figure(t, "backup %s: %d keys in %s", name, keys, took.Round(time.Second))
	}
	for _, n := range c.data() {
		after := n.usage()
		// One that stays of each backup would be more.
		if after.files > before[n.name].files+2 || after.sockets > before[n.name].sockets+2 {
			t.Errorf("%s: from %+v to %+v over %d backups", n.name, before[n.name], after, backups-1)
		}
		figure(t, "%s over %d backups: files %+d, sockets %+d, memory %+d kB", n.name, backups-1, after.files-before[n.name].files,
			after.sockets-before[n.name].sockets, (after.memory-before[n.name].memory)>>10)
	}
	c.verify(d, "after backups", first)
	c.lose()

	other := start(t, net, storage, 2, shape{memory: 1, ebs: 2, routing: 1, inMemory: 1, onDisk: 1}, 1, 3, 1)
	other.restore("one", "full", true)
	other.verify(d, "after the loss and a replay", first)
	other.has(empty)

	newer := func(i int) int {
		if i%10 == 3 {
			return 1
		}
		return 0
	}
	if _, err := d.Load(t.Context(), other.client, 1, func(i int) bool { return newer(i) == 1 }); err != nil {
		t.Fatal(err)
	}
	other.restore("two", "more-4", false)
	other.verify(d, "after a replay over newer values", newer)
}

// restore replays a backup of two memory nodes and a disk node, by the sidecars of three
// and one.
func (c *cluster) restore(id, backup string, kill bool) {
	c.t.Helper()
	began := time.Now()
	for i, n := range c.of(config.RoleMemory) {
		if i < 2 {
			n.replay(id, backup, "memory-"+string(rune('0'+i)))
		} else {
			n.replay(id, backup)
		}
	}
	disk := c.of(config.RoleDisk)[0]
	disk.replay(id, backup, "ebs-0")
	if kill {
		n := c.of(config.RoleMemory)[0]
		var at int64
		eventually(c.t, "the replay is on", 4*time.Minute, func() bool {
			r, err := n.report()
			if err != nil || r.Replay == nil {
				return false
			}
			at = r.Replay.Keys
			return at > 2000 && r.Replay.Phase == api.ReplayReplaying
		})
		n.killSidecar()
		figure(c.t, "a sidecar is killed when it has written %d keys", at)
		time.Sleep(3 * time.Second)
		n.attend()
	}
	var sum int64
	for _, n := range c.data() {
		r := n.replayed(id)
		c.t.Logf("%s: %+v", n.name, r)
		sum += r.Keys
	}
	figure(c.t, "replay %s: %d keys in %s", id, sum, time.Since(began).Round(time.Second))
}

// empties are values that Anna says are not there, and that are what it has for deletions.
func empties() []wire.Tuple {
	return []wire.Tuple{
		{Key: "empty lww", Lattice: wire.TypeLWW, Payload: wire.AppendLWW(nil, wire.LWW{Timestamp: 77})},
		{Key: "empty set", Lattice: wire.TypeSet},
		{Key: "empty ordered", Lattice: wire.TypeOrderedSet},
	}
}

func (c *cluster) put(all []wire.Tuple) {
	c.t.Helper()
	for _, tuple := range all {
		owners, err := c.client.Owners(c.t.Context(), tuple.Key)
		must(c.t, err)
		got, err := c.client.Put(c.t.Context(), owners[0], []wire.Tuple{tuple})
		if err != nil || !got[0].Done {
			c.t.Fatalf("%s: %+v, %v", tuple.Key, got, err)
		}
	}
}

func (c *cluster) has(all []wire.Tuple) {
	c.t.Helper()
	for _, tuple := range all {
		owners, err := c.client.Owners(c.t.Context(), tuple.Key)
		must(c.t, err)
		got, err := c.client.Get(c.t.Context(), owners[0], []string{tuple.Key})
		if err != nil || got[0].Lattice != tuple.Lattice || string(got[0].Payload) != string(tuple.Payload) {
			c.t.Errorf("%s: %+v, %v", tuple.Key, got, err)
		}
	}
}
