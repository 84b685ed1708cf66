package annanode

import (
	"slices"
	"strconv"
	"strings"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// dataTiers are the tiers that keep keys, in the order in which clients use them.
var dataTiers = []wire.Tier{wire.Memory, wire.Disk}

// view is the cluster as one thread sees it: the nodes of each tier, the threads
// of each node.
type view struct {
	nodes    [wire.Routing]*ring
	threads  [wire.Routing]*ring
	defaults factors
}

func newView(c *Config) *view {
	v := &view{defaults: c.factors()}
	v.nodes[wire.Memory], v.nodes[wire.Disk] = &ring{}, &ring{}
	v.threads[wire.Memory] = threadRing(c.Threads.Memory)
	v.threads[wire.Disk] = threadRing(c.Threads.Disk)
	return v
}

// owner is a thread of a node.
type owner struct {
	wire.Server
	tid int
}

func address(host string, port, tid int) string {
	return "tcp://" + host + ":" + strconv.Itoa(port+tid)
}

func (o owner) requests() string { return address(o.Public, wire.PortRequest, o.tid) }
func (o owner) gossip() string   { return address(o.Private, wire.PortGossip, o.tid) }

// owners are the threads of tiers that keep a key. False is Anna's endless loop.
func (v *view) owners(key string, f factors, tiers ...wire.Tier) ([]owner, bool) {
	var all []owner
	for _, tier := range tiers {
		nodes, ok := v.nodes[tier].owners(globalHash(key), f.global[tier])
		if !ok {
			return nil, false
		}
		if len(nodes) == 0 {
			continue
		}
		tids, ok := v.threads[tier].owners(hash(key), f.local[tier])
		if !ok {
			return nil, false
		}
		for _, n := range nodes {
			for _, tid := range tids {
				all = append(all, owner{v.nodes[tier].members[n].Server, int(tid)})
			}
		}
	}
	return all, true
}

// metadataOwners are the threads that keep one of Anna's own keys: of one memory
// node, whatever the factors of keys are.
func (v *view) metadataOwners(key string) []owner {
	f := v.defaults
	f.global[wire.Memory] = 1
	all, _ := v.owners(key, f, wire.Memory)
	return all
}

// first tells whether a thread is the one that reports a key.
func (v *view) first(key string, f factors, tier wire.Tier, private string, tid int) bool {
	if f.global[tier] == 0 || tier == wire.Disk && f.global[wire.Memory] > 0 {
		return false
	}
	nodes, threads := v.nodes[tier], v.threads[tier]
	if len(nodes.places) == 0 || len(threads.places) == 0 {
		return false
	}
	if threads.count > 1 && int(threads.places[threads.from(hash(key))].owner) != tid {
		return false
	}
	return nodes.members[nodes.places[nodes.from(globalHash(key))].owner].Private == private
}

// contains tells whether a thread is among the owners: the private address counts.
func contains(owners []owner, private string, tid int) bool {
	return slices.ContainsFunc(owners, func(o owner) bool { return o.Private == private && o.tid == tid })
}

// isMetadata tells whether a key is one of Anna's own.
func isMetadata(key string) bool {
	return key == "ANNA_METADATA" || strings.HasPrefix(key, "ANNA_METADATA|")
}

// peers are the members of all data tiers.
func (v *view) peers() []wire.Server {
	var all []wire.Server
	for _, tier := range dataTiers {
		for _, m := range v.nodes[tier].members {
			if m != nil {
				all = append(all, m.Server)
			}
		}
	}
	return all
}

// membership is what a routing node answers.
func (v *view) membership() wire.Membership {
	var all wire.Membership
	for _, tier := range dataTiers {
		var servers []wire.Server
		for _, m := range v.nodes[tier].members {
			if m != nil {
				servers = append(servers, m.Server)
			}
		}
		all.Tiers = append(all.Tiers, wire.TierServers{Tier: tier, Servers: servers})
	}
	return all
}
