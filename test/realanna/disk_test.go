package realanna

import (
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/api/medusa"
	"github.com/stategraft/stategraft/test/kvs"
)

// TestDisk backs up keys that only the disk tier has, and writes them again: into empty
// directories with another number of threads, and over files that a node started anew does
// not know of. Anna's disk tier does not write priorities of zero and more: they are left
// out.
func TestDisk(t *testing.T) {
	if outside(t) {
		return
	}
	net, storage := newNetwork(t), t.TempDir()
	d := kvs.Data{Keys: 10_000, Large: 10, Seed: 9}
	pick := func(i int) bool { return i%20 != 6 }
	const keys = 9_500
	verify := func(c *cluster, what string) {
		t.Helper()
		v, err := d.Verify(t.Context(), c.client, first, pick)
		if err != nil || v.Equal != keys {
			t.Errorf("%s: %+v, %v", what, v, err)
			return
		}
		figure(t, "disk tier, %s: %d keys, all equal in type and value", what, v.Equal)
	}
	c := start(t, net, storage, 1, shape{memory: 1, ebs: 2, routing: 1, onDisk: 1}, 1, 1, 1)
	if _, err := d.Load(t.Context(), c.client, 0, pick); err != nil {
		t.Fatal(err)
	}
	verify(c, "after loading")
	took := c.backUp("disk", medusa.BackupRequest_FULL)
	b := c.backup("disk")
	var sum int64
	for _, m := range b.Members {
		if sum += m.Keys; m.Missing != nil {
			t.Errorf("%s lacks %+v", m.Node, m.Missing)
		}
	}
	if sum != keys {
		t.Errorf("the backup has %d keys: %+v", sum, b)
	}
	figure(t, "disk tier: %d keys backed up in %s", sum, took.Round(time.Second))
	c.lose()

	other := start(t, net, storage, 2, shape{memory: 1, ebs: 1, routing: 1, onDisk: 1}, 1, 1, 1)
	disk := other.of(config.RoleDisk)[0]
	other.spread("first", "disk", "ebs-0", "memory-0")
	verify(other, "after a replay into empty directories")

	// Started anew it knows none of its files.
	disk.lose()
	disk.start()
	eventually(t, "the disk node serves", time.Minute, func() bool { return listens(disk.ip, 6200) })
	v, err := d.Verify(t.Context(), other.client, first, pick)
	must(t, err)
	figure(t, "disk tier started anew: %d of %d keys are served", v.Equal, keys)
	other.spread("second", "disk", "ebs-0", "memory-0")
	verify(other, "after a replay over the files that it does not know")
}

// spread has the first disk node replay one part and the first memory node the other.
func (c *cluster) spread(id, backup, disk, memory string) {
	c.t.Helper()
	d, m := c.of(config.RoleDisk)[0], c.of(config.RoleMemory)[0]
	d.replay(id, backup, disk)
	m.replay(id, backup, memory)
	c.t.Logf("%s: %+v", d.name, d.replayed(id))
	c.t.Logf("%s: %+v", m.name, m.replayed(id))
}
