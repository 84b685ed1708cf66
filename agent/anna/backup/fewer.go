package backup

import (
	"fmt"
	"slices"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// fewer is a note where the node has fewer keys than in the backup before, and the cluster
// the same nodes: Anna deletes none, so they went to no other node and are not seen any more.
// A memory node that was started anew has lost them, one of the disk tier has their files and
// does not look at them. It is no key that is missing from this backup, which has what there
// is, as after a restore of an older one; but who goes by it has to know.
func (b *backup) fewer() string {
	if b.base == nil {
		return ""
	}
	before := b.base.manifest
	gone := before.Keys - b.made.Keys - b.made.Missing.Count
	if gone <= 0 || before.Threads != b.made.Threads || !slices.Equal(dataNodes(before), dataNodes(b.made)) {
		return ""
	}
	return fmt.Sprintf("the node has %d keys fewer than in backup %s, %d of %d, with the same nodes in the cluster: Anna deletes no key, so unless an older backup was restored since, or the monitor moves keys between the tiers, it was started anew and they are not seen any more; "+
		"kubectl stategraft repair brings them back from that backup. Keep that one until then", gone, before.Name, b.made.Keys, before.Keys)
}

// dataNodes are those of a manifest's members that hold keys, by what places them in the ring.
func dataNodes(m manifest.Manifest) (all []string) {
	for _, s := range m.Members {
		if s.Tier == wire.Memory.String() || s.Tier == wire.Disk.String() {
			all = append(all, s.Tier+" "+s.Private)
		}
	}
	slices.Sort(all)
	return all
}
