package annanode

import (
	"context"
	"slices"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// handOver bounds how long a departing node waits for its keys to be written.
const handOver = 30 * time.Second

// start tells the others of this node, once it listens.
func (t *kvs) start(members wire.Membership, count int64) {
	self := wire.Server{Public: t.cfg.Public, Private: t.cfg.Private}
	for _, tier := range members.Tiers {
		if !slices.Contains(dataTiers, tier.Tier) {
			continue
		}
		for _, s := range tier.Servers {
			t.view.nodes[tier.Tier].join(s, 0)
		}
	}
	t.view.nodes[t.cfg.Tier].join(self, count)
	if t.tid != 0 {
		return
	}
	notice := wire.JoinMessage(t.cfg.Tier, self, count)
	for _, s := range t.view.peers() {
		if s.Private != self.Private {
			t.send(address(s.Private, wire.PortJoin, 0), []byte(wire.PeerMessage(notice)))
		}
	}
	for _, host := range t.cfg.Routing {
		t.send(address(host, wire.PortNotify, 0), []byte(notice))
	}
	for _, host := range t.cfg.Monitoring {
		t.send(address(host, wire.PortMonitorNotify, 0), []byte(notice))
	}
}

// joined is the news of a node, from itself, a peer or routing.
func (t *kvs) joined(message string) {
	n, err := wire.ParseNotice("join:" + message)
	if err != nil || n.Tier == wire.Routing {
		t.log.Warn("a join that cannot be read", "message", message, "err", err)
		return
	}
	if !t.view.nodes[n.Tier].join(n.Server, n.Count) {
		return
	}
	t.log.Info("a node joined", "tier", n.Tier, "node", n.Server.Private, "count", n.Count)
	if t.tid == 0 {
		self := wire.JoinMessage(t.cfg.Tier, wire.Server{Public: t.cfg.Public, Private: t.cfg.Private}, t.node.count)
		t.send(address(n.Server.Private, wire.PortJoin, 0), []byte(wire.PeerMessage(self)))
		for _, s := range t.view.peers() {
			if s.Private != t.cfg.Private && s.Private != n.Server.Private {
				t.send(address(s.Private, wire.PortJoin, 0), []byte(message))
			}
		}
		t.tellThreads(wire.PortJoin, message)
	}
	if n.Tier == t.cfg.Tier {
		t.redistribute(n)
	}
}

// tellThreads passes a message on to the other threads of this node.
func (t *kvs) tellThreads(port int, message string) {
	for tid := 1; tid < t.cfg.threads(); tid++ {
		t.send(address(t.cfg.Private, port, tid), []byte(message))
	}
}

// redistribute sends keys to a node that has joined: those that this thread no
// longer owns, or, when the node has joined again, all that the node owns; none for
// a count below 0.
//
// Anna means to send 50 at a time to each thread and to remove them when all are
// sent; but it takes what it sent off a copy of the list, and so sends the same 50
// for ever, and removes nothing. The other keys are hidden: here they are not asked
// for, there they are not.
func (t *kvs) redistribute(n wire.Notice) {
	if n.Count < 0 {
		return
	}
	move := map[string][]string{}
	var remove []string
	for key, e := range t.entries {
		if !e.stored {
			continue
		}
		owners := t.owners(key, &e, t.cfg.Tier)
		again := n.Count > 0
		if !again && t.responsible(owners) {
			continue
		}
		if !again {
			remove = append(remove, key)
		}
		for _, o := range owners {
			if !again || o.Private == n.Server.Private {
				move[o.gossip()] = append(move[o.gossip()], key)
			}
		}
	}
	for to, keys := range move {
		if len(keys) > moveLimit && !t.cfg.NoJoinDefect {
			move[to] = keys[:moveLimit]
			t.stuck = true
			t.counts.hidden.Add(int64(len(keys) - moveLimit))
			t.log.Warn("a join that will never be done", "to", to, "keys", len(keys))
		}
	}
	t.sendKeys(move)
	if !t.stuck {
		t.forget(remove)
	}
}

func (t *kvs) departed(message string) {
	n, err := wire.ParseNotice("depart:" + message)
	if err != nil || n.Tier == wire.Routing {
		t.log.Warn("a departure that cannot be read", "message", message, "err", err)
		return
	}
	t.log.Info("a node departed", "tier", n.Tier, "node", n.Server.Private)
	t.view.nodes[n.Tier].depart(n.Server)
	if t.tid == 0 {
		t.tellThreads(wire.PortDepart, message)
	}
	// The node may have been asked for factors, and will not answer. The real one
	// waits for ever; it has the departure mostly before what the node hands over.
	for key := range t.pending {
		t.ask[key] = struct{}{}
	}
	for key := range t.pendingGossip {
		t.ask[key] = struct{}{}
	}
}

// selfDepart hands this thread's keys over, acknowledges to an address, and ends. Thread 0
// tells everybody and the other threads. But the process ends behind it, and does not wait
// for thread 1 (threadDone): so that is not told here, where Anna's may be lucky.
func (t *kvs) selfDepart(to string) {
	self := wire.Server{Public: t.cfg.Public, Private: t.cfg.Private}
	t.view.nodes[t.cfg.Tier].depart(self)
	if t.tid == 0 {
		t.announceDeparture(self)
		for tid := 2; tid < t.cfg.threads(); tid++ {
			t.send(address(t.cfg.Private, wire.PortSelfDepart, tid), []byte(to))
		}
	}
	move := map[string][]string{}
	for key, e := range t.entries {
		if !e.stored {
			continue
		}
		for _, o := range t.owners(key, &e, dataTiers...) {
			move[o.gossip()] = append(move[o.gossip()], key)
		}
	}
	t.sendKeys(move)
	t.send(to, []byte(self.Public+"_"+self.Private+"_"+t.cfg.Tier.String()))
	ctx, cancel := context.WithTimeout(t.ctx, handOver)
	defer cancel()
	t.flush(ctx)
	t.gone.Store(true)
	t.node.threadDone()
	<-t.ctx.Done()
}

// announceDeparture tells everybody, and gives them time to read it: a peer that has
// the keys before it sends them back, to nobody. Anna is slower, and reads departures
// before anything else that has come.
func (t *kvs) announceDeparture(self wire.Server) {
	notice := wire.DepartMessage(t.cfg.Tier, self)
	to := map[string]string{}
	for _, s := range t.view.peers() {
		to[address(s.Private, wire.PortDepart, 0)] = wire.PeerMessage(notice)
	}
	for _, host := range t.cfg.Routing {
		to[address(host, wire.PortNotify, 0)] = notice
	}
	for _, host := range t.cfg.Monitoring {
		to[address(host, wire.PortMonitorNotify, 0)] = notice
	}
	ctx, cancel := context.WithTimeout(t.ctx, time.Second)
	defer cancel()
	for at, message := range to {
		t.send(at, []byte(message))
	}
	for at := range to {
		_ = t.pushers[at].Flush(ctx)
	}
	time.Sleep(50 * time.Millisecond)
}
