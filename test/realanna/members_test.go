package realanna

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/config"
	manager "github.com/stategraft/stategraft/agent/anna/management"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/api/medusa"
	"github.com/stategraft/stategraft/test/kvs"
)

// knows is how many nodes of the memory tier a routing node knows.
func (c *cluster) knows(n *node) int {
	m, err := c.client.MembersOf(c.t.Context(), n.host())
	if err != nil {
		return -1
	}
	return len(m.Of(wire.Memory))
}

// depart is what kubelet asks before it ends Anna's container.
func (n *node) depart() string {
	n.t.Helper()
	got, err := http.Get(fmt.Sprintf("http://%s:%d/depart", n.ip, portLife))
	must(n.t, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	must(n.t, err)
	return strings.TrimSpace(string(text))
}

// settles is verify when what is on its way between nodes has arrived.
func (c *cluster) settles(d kvs.Data, what string) {
	c.t.Helper()
	for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(time.Second) {
		if v, err := d.Verify(c.t.Context(), c.client, first, nil); err == nil && v.Equal == int64(d.Keys) {
			break
		}
	}
	c.verify(d, what, first)
}

// join starts a node as its pod does: setup saves the keys, Anna joins, the sidecar heals.
func (n *node) join(members int) {
	n.t.Helper()
	began := time.Now()
	saved := n.save()
	saving := time.Since(began)
	n.start()
	healed := n.count("keys that a join hides were written again")
	n.attend()
	joined := eventually(n.t, n.name+" is a member", time.Minute, func() bool { return n.members(wire.Memory) == members })
	took := eventually(n.t, "the keys that the join of "+n.name+" hides are written", 3*time.Minute, func() bool {
		return n.count("keys that a join hides were written again") > healed
	})
	for line := range strings.Lines(n.said()) {
		if strings.Contains(line, "hides were written") {
			n.t.Log(line)
		}
	}
	figure(n.t, "%s joins: %s keys saved before in %s, a member after %s, healed %s later", n.name, saved, saving.Round(time.Second), joined.Round(time.Second), took.Round(time.Second))
}

// manage starts the management, which tells nodes that start to have others send them
// nothing: twenty thousand keys are enough for the nodes of a cluster to block each other
// for good when another joins that is told otherwise.
func manage(t *testing.T, net *network) {
	t.Helper()
	net.name(management, gateway)
	options := config.DefaultOptions()
	s, err := manager.Start(t.Context(), manager.Options{Config: options, Namespace: "kvs", Resolver: resolver(net.zone()), Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(s.Close)
}

// TestMembers has nodes of a cluster come and go: no key is lost by that, but those of a
// node that is killed, and they come back from a backup.
func TestMembers(t *testing.T) {
	if outside(t) {
		return
	}
	net := newNetwork(t)
	d := kvs.Data{Keys: 20_000, Large: 20, Seed: 5}
	manage(t, net)
	c := start(t, net, t.TempDir(), 1, shape{memory: 2, ebs: 1, routing: 1, inMemory: 1, managed: true}, 2, 2, 0)
	if _, err := d.Load(t.Context(), c.client, 0, nil); err != nil {
		t.Fatal(err)
	}
	c.verify(d, "after loading", first)

	routing := c.of(config.RoleRouting)
	routing[0].lose()
	routing[0].start()
	took := eventually(t, "the routing node knows the nodes again", time.Minute, func() bool { return c.knows(routing[0]) == 2 })
	figure(t, "a routing node started anew knows the nodes after %s", took.Round(time.Second))
	c.verify(d, "after a routing node's new start", first)
	for _, n := range routing {
		n.lose()
	}
	for _, n := range routing {
		n.start()
	}
	took = eventually(t, "the routing nodes know the nodes again", time.Minute, func() bool { return c.knows(routing[0]) == 2 && c.knows(routing[1]) == 2 })
	figure(t, "all routing nodes started anew know the nodes after %s", took.Round(time.Second))
	c.verify(d, "after all routing nodes' new start", first)

	added := c.add(config.RoleMemory)
	added.join(3)
	c.verify(d, "after a node was added", first)
	c.backUp("three", medusa.BackupRequest_FULL)

	leaver := c.of(config.RoleMemory)[1]
	began := time.Now()
	said := leaver.depart()
	figure(t, "a node departs in %s: %s", time.Since(began).Round(time.Millisecond), said)
	eventually(t, "the node is no member", time.Minute, func() bool { return c.knows(routing[0]) == 2 && c.knows(routing[1]) == 2 })
	leaver.stop()
	c.settles(d, "after a node has left and ended")

	// It comes back at another address, as a pod that was re-created.
	net.name(leaver.host(), "")
	_ = leaver.network.Process.Kill()
	again := c.replace(leaver)
	again.join(3)
	c.verify(d, "after the node came back at another address", first)

	dead := added
	began = time.Now()
	dead.gone()
	eventually(t, "the dead node is departed", 2*time.Minute, func() bool { return c.knows(routing[0]) == 2 && c.knows(routing[1]) == 2 })
	figure(t, "a dead node is departed after %s (configured: 20 s)", time.Since(began).Round(time.Second))
	v, err := d.Verify(t.Context(), c.client, first, nil)
	must(t, err)
	figure(t, "without the dead node %d of %d keys are served", v.Equal, d.Keys)
	if v.Equal == 0 || v.Missing == 0 {
		t.Errorf("%+v", v)
	}
	began = time.Now()
	c.of(config.RoleMemory)[0].replay("repair", "three", "memory-0", "memory-1", "memory-2")
	c.of(config.RoleMemory)[0].replayed("repair")
	figure(t, "a repair of all keys by one sidecar: %s", rate(d.Keys, time.Since(began)))
	c.verify(d, "after the repair", first)
}
