package realanna

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/membership"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/kvs"
)

// joins is how often threads of the node have taken a node into their rings, or begun to
// send keys to one.
func (n *node) joins() (all int) {
	for tid := range max(n.shape.memory, n.shape.ebs) {
		text, _ := os.ReadFile(filepath.Join(n.dir, "anna", "log_"+strconv.Itoa(tid)+".txt"))
		all += strings.Count(string(text), "Received a node join")
	}
	return all
}

// loads tells whether all keys can be written within a time.
func (c *cluster) loads(d kvs.Data, most time.Duration) bool {
	ctx, cancel := context.WithTimeout(c.t.Context(), most)
	defer cancel()
	_, err := d.Load(ctx, c.client, 0, nil)
	return err == nil
}

// TestTogether has nodes of several threads start together, and a thread not know of a
// peer, as happens then to some (start): keys are not answered until the sidecar has told it.
// To threads that know the peers it is no news.
func TestTogether(t *testing.T) {
	if outside(t) {
		return
	}
	net := newNetwork(t)
	d := kvs.Data{Keys: 2_000, Seed: 3}
	c := prepare(t, net, t.TempDir(), 1, shape{memory: 2, ebs: 1, routing: 1, inMemory: 1}, 1)
	all := []*node{c.add(config.RoleMemory), c.add(config.RoleMemory), c.add(config.RoleMemory)}
	for _, n := range all {
		n.start()
	}
	eventually(t, "the nodes are members", time.Minute, func() bool { return c.members(wire.Memory) == 3 })
	peer := wire.Server{Public: all[1].host(), Private: all[1].host()}
	for harm := false; !harm; d.Seed++ {
		if d.Seed > 9 {
			t.Fatal("a thread that does not know a peer does no harm: this shows nothing")
		}
		// It may hear of the peer behind that, when it has just started: then once more, with
		// keys that nobody has asked for yet.
		time.Sleep(2 * time.Second)
		must(t, membership.ZeroMQ{}.Push(t.Context(), all[0].ip, wire.PortDepart+1, wire.PeerMessage(wire.DepartMessage(wire.Memory, peer))))
		harm = !c.loads(d, 20*time.Second)
	}
	d.Seed--
	before := map[*node]int{}
	for _, n := range all {
		before[n] = n.joins()
		n.attend()
	}
	for _, n := range all {
		eventually(t, "the threads of "+n.name+" are told", time.Minute, func() bool { return n.count("told the threads of this node") > 0 })
	}
	began := time.Now()
	if !c.loads(d, time.Minute) {
		t.Fatal("the keys cannot be written though the threads were told")
	}
	figure(t, "a thread that did not know a peer: the keys are written %s after it was told", time.Since(began).Round(time.Second))
	c.verify(d, "after a thread was told of a peer", first)
	for i, n := range all {
		news := n.joins() - before[n]
		figure(t, "%s: the threads were told of 2 nodes each, %d of which were news", n.name, news)
		if i == 0 && news < 1 {
			t.Error("nor was the peer that its thread did not know")
		}
	}

	// A process that has started anew has threads that asked anew.
	all[1].lose()
	all[1].start()
	took := eventually(t, "the threads of the new process are told", time.Minute, func() bool { return all[1].count("told the threads of this node") > 1 })
	figure(t, "the threads of a process started anew are told after %s", took.Round(time.Second))
	if n := all[0].count("told the threads of this node"); n != 1 {
		t.Errorf("the threads of another node were told %d times", n)
	}
}
