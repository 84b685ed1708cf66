package membership

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// Each thread of a KVS node asks routing by itself who is there when it starts, and thread 0
// passes on to the others what is new to itself only (hydro-project/anna src/kvs/server.cpp,
// node_join_handler.cpp). Where nodes start together a thread can ask before the peer is
// known, and thread 0 after: then it never learns of the peer, takes keys for its own that
// are not, and refuses those of Anna's own that are asked of it; what waits for them waits
// for ever. Observed in some of many starts with two threads.
//
// So the threads are told of whom routing lists, with announced for a count: who is known,
// with whatever count, stays as it is, and who is not is taken into the ring, without a key
// that is sent or removed for it (hydro-project/anna include/hash_ring.hpp, insert: nothing
// is less than -1; node_join_handler.cpp sends keys for counts of 0 and more).

// own is what the threads of this node's process were told.
type own struct {
	ended  <-chan struct{} // closed when the process has ended that was told
	listed []member        // whom routing listed at the last look
	told   bool            // all of listed
	fresh  []member        // told at the last look
}

// tellOwn tells the threads of the nodes that routing lists: when the list was the same at
// two looks, and then no more until it changes, or the process has started anew. lists are
// of the routing nodes that know this node.
func (a *Announcer) tellOwn(ctx context.Context, self wire.Server, lists []wire.Membership) {
	watched := len(lists) > 0 && a.Threads != nil && a.Threads() > 0 && a.watched(ctx)
	fresh := a.own.fresh
	a.own.fresh = nil
	if !watched {
		return
	}
	a.telling.Lock()
	defer a.telling.Unlock()
	if a.stage != stays {
		return
	}
	// Who leaves while the threads are told of it would be in their rings for good: the
	// departure has come before. A routing node that has started anew cannot know this node
	// again by now (missed), and whoever it lists later is told of again.
	if left := slices.DeleteFunc(fresh, func(m member) bool { return slices.ContainsFunc(lists, m.in) }); len(left) > 0 {
		a.tellThreads(ctx, wire.PortDepart, left, func(m member) string { return wire.DepartMessage(m.tier, m.server) })
	}
	listed := peers(lists, self)
	if !slices.EqualFunc(listed, a.own.listed, member.same) {
		a.own.listed, a.own.told = listed, false
		return
	}
	if a.own.told || len(listed) == 0 {
		return
	}
	if a.tellThreads(ctx, wire.PortJoin, listed, func(m member) string { return wire.JoinMessage(m.tier, m.server, announced) }) {
		a.own.told, a.own.fresh = true, slices.Clone(listed)
		a.Log.Info("told the threads of this node of the others, whom each may have missed at its start", "threads", a.Threads(), "nodes", len(listed))
	}
}

// tellThreads sends a message about each of the nodes to each thread; thread 0 goes last, as
// it passes on what is news to it.
func (a *Announcer) tellThreads(ctx context.Context, port int, nodes []member, message func(member) string) bool {
	for tid := a.Threads() - 1; tid >= 0; tid-- {
		for _, m := range nodes {
			if err := a.Messenger.Push(ctx, cmp.Or(a.Local, loopback), port+tid, wire.PeerMessage(message(m))); err != nil {
				a.counted.change(func(c *Counts) { c.Troubles++ })
				a.Log.Warn("a thread of this node cannot be told of another node; it is tried again", "thread", tid, "node", m.server.Private, "error", err.Error())
				return false
			}
		}
		a.counted.change(func(c *Counts) { c.Threads++ })
	}
	return true
}

// watched tells whether the node's process is. One that is new has been told nothing.
func (a *Announcer) watched(ctx context.Context) bool {
	if a.own.ended != nil {
		select {
		case <-a.own.ended:
			a.own = own{}
		default:
			return true
		}
	}
	watch := a.Watch
	if watch == nil {
		watch = Watch
	}
	ended, err := watch(ctx, cmp.Or(a.Local, loopback), wire.PortJoin)
	if err != nil {
		if ctx.Err() == nil {
			a.Log.Debug("the node's process cannot be watched", "error", err.Error())
		}
		return false
	}
	a.own.ended = ended
	return true
}

// peers are the data nodes besides this one that all of the lists have, memory nodes first: a
// node that knows only those of the disk tier ends.
func peers(lists []wire.Membership, self wire.Server) (all []member) {
	for _, tier := range []wire.Tier{wire.Memory, wire.Disk} {
		of := lists[0].Of(tier)
		from := len(all)
		for _, s := range of {
			m := member{tier, s}
			if s.Private != self.Private && !slices.ContainsFunc(lists, func(list wire.Membership) bool { return !m.in(list) }) {
				all = append(all, m)
			}
		}
		slices.SortFunc(all[from:], func(a, b member) int { return cmp.Compare(a.server.Private, b.server.Private) })
	}
	return all
}

// same tells whether two are the same to a ring, which keeps the first public address.
func (m member) same(other member) bool {
	return m.tier == other.tier && m.server.Private == other.server.Private
}

// in tells whether a list has the node.
func (m member) in(list wire.Membership) bool {
	_, ok := find(list, m.tier, m.server.Private)
	return ok
}

// Watch tells when a process has ended, by a connection to one of its sockets for messages
// that nobody answers, which stays open until then, or until the context ends.
func Watch(ctx context.Context, host string, port int) (ended <-chan struct{}, err error) {
	dialling, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	conn, err := zmtp.Dial(dialling, net.JoinHostPort(host, strconv.Itoa(port)), zmtp.Push)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	go func() {
		defer close(done)
		defer stop()
		for {
			if _, err := conn.Recv(); err != nil {
				_ = conn.Close()
				return
			}
		}
	}()
	return done, nil
}
