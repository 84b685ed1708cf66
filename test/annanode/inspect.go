package annanode

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// Stats is what clients did to a node.
type Stats struct {
	Threads []ThreadStats
}

// ThreadStats is the same of one thread. What is counted is counted since the start.
type ThreadStats struct {
	Tid  int
	Keys int // known, not all of them stored

	// MaxOutstanding is the most tuples of PUTs, or lookups of a routing thread,
	// that had come and were not answered: beyond 1000 Anna's threads may stop for
	// good. MaxPending is the most tuples that waited for the replication of a key.
	MaxOutstanding, MaxPending int
	Outstanding                int // now

	// ResponseAddresses is to how many distinct addresses the thread answered: each
	// costs the process a socket for ever.
	ResponseAddresses int
	// MaxUnread is the most answers that waited for one peer to read them; the
	// thread blocks at 1000.
	MaxUnread int
	Blocked   bool // by such a peer, now
	Hung      bool // for good

	Gets, Puts, Refused int // tuples served
	Lookups, Responses  int // messages
	Hidden              int // keys that a join has hidden
}

// Stats may be asked for at any time, also of a node that hangs.
func (n *Node) Stats() Stats {
	var s Stats
	for _, a := range n.actors() {
		c := &a.counts
		s.Threads = append(s.Threads, ThreadStats{
			Tid: a.tid, Keys: int(c.keys.Load()),
			MaxOutstanding: int(c.maxOutstanding.Load()), MaxPending: int(c.maxPending.Load()),
			Outstanding:       int(c.outstanding.Load()),
			ResponseAddresses: int(c.addresses.Load()), MaxUnread: int(c.maxUnread.Load()),
			Blocked: c.blocked.Load(), Hung: c.hung.Load(),
			Gets: int(c.gets.Load()), Puts: int(c.puts.Load()), Refused: int(c.refused.Load()),
			Lookups: int(c.lookups.Load()), Responses: int(c.responses.Load()), Hidden: int(c.hidden.Load()),
		})
	}
	return s
}

// Max is the greatest of each maximum over all threads, and the sum of the rest.
func (s Stats) Max() ThreadStats {
	var m ThreadStats
	for _, t := range s.Threads {
		m.Keys += t.Keys
		m.MaxOutstanding = max(m.MaxOutstanding, t.MaxOutstanding)
		m.MaxPending = max(m.MaxPending, t.MaxPending)
		m.ResponseAddresses = max(m.ResponseAddresses, t.ResponseAddresses)
		m.MaxUnread = max(m.MaxUnread, t.MaxUnread)
		m.Blocked, m.Hung = m.Blocked || t.Blocked, m.Hung || t.Hung
		m.Outstanding += t.Outstanding
		m.Gets += t.Gets
		m.Puts += t.Puts
		m.Refused += t.Refused
		m.Lookups += t.Lookups
		m.Responses += t.Responses
		m.Hidden += t.Hidden
	}
	return m
}

func (n *Node) actors() []*actor {
	var all []*actor
	for _, t := range n.kvs {
		all = append(all, t.actor)
	}
	for _, t := range n.route {
		all = append(all, t.actor)
	}
	return all
}

// do runs a call in a thread and waits for it; it is false when the node is done.
func (t *kvs) do(call func()) bool {
	done := make(chan struct{})
	t.post(t.ctx, item{call: func() { defer close(done); call() }})
	select {
	case <-done:
		return true
	case <-t.ctx.Done():
		return false
	}
}

// Load stores values in the threads of this node that own their keys, as if they
// had been PUT long ago, and tells how many it took: a quick way to many keys.
func (n *Node) Load(tuples iter.Seq[wire.Tuple]) int {
	taken := 0
	const batch = 4096
	for part := range batches(tuples, batch) {
		for _, t := range n.kvs {
			t.do(func() {
				for i := range part {
					if t.load(&part[i]) {
						taken++
					}
				}
			})
		}
	}
	return taken
}

func (t *kvs) load(tuple *wire.Tuple) bool {
	e := t.entries[tuple.Key]
	if !e.known {
		t.setFactors(tuple.Key, &e, t.view.defaults)
	}
	if !t.responsible(t.owners(tuple.Key, &e, t.cfg.Tier)) {
		return false
	}
	t.take(tuple.Key, &e, tuple)
	t.keep(tuple.Key, e)
	return true
}

func batches(tuples iter.Seq[wire.Tuple], size int) iter.Seq[[]wire.Tuple] {
	return func(yield func([]wire.Tuple) bool) {
		part := make([]wire.Tuple, 0, size)
		for tuple := range tuples {
			if part = append(part, tuple); len(part) == size {
				if !yield(part) {
					return
				}
				part = part[:0]
			}
		}
		if len(part) > 0 {
			yield(part)
		}
	}
}

// Each yields the keys that this node serves, without Anna's own, in the form in
// which a GET of a client is answered; also those that it no longer owns.
func (n *Node) Each() iter.Seq[wire.Tuple] {
	return func(yield func(wire.Tuple) bool) {
		for _, t := range n.kvs {
			var keys []string
			t.do(func() { keys = slices.Collect(maps.Keys(t.entries)) })
			for _, key := range keys {
				if strings.HasPrefix(key, "ANNA_METADATA|") {
					continue
				}
				tuple, ok := t.peek(key)
				if ok && !yield(tuple) {
					return
				}
			}
		}
	}
}

// Get is the value of a key in this node, whichever thread has it.
func (n *Node) Get(key string) (wire.Tuple, bool) {
	for _, t := range n.kvs {
		if tuple, ok := t.peek(key); ok {
			return tuple, true
		}
	}
	return wire.Tuple{}, false
}

func (t *kvs) peek(key string) (tuple wire.Tuple, ok bool) {
	t.do(func() {
		e := t.entries[key]
		if ok = e.stored; ok {
			tuple = wire.Tuple{Key: key, Lattice: e.kind()}
			tuple.Payload, tuple.Error = t.keys.get(key, &e)
		}
	})
	return tuple, ok
}
