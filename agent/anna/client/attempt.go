package client

import (
	"time"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// attempt is one request to one thread, from the queue until nothing of it counts as
// outstanding any more. Its fields are guarded by Client.mu.
type attempt struct {
	id    uint64
	call  *call
	peer  *peer
	index []int32 // of its tuples in the call; ^i when answered
	next  int     // where the next answer is expected: mostly they come in order
	left  int     // not answered
	try   int

	state    state
	queuedAt time.Time
	sentAt   time.Time
	lostAt   time.Time
	brokenAt time.Time // the connection it was sent over has ended
	patience time.Duration
	conn     *zmtp.Conn
	windowed bool // counts in the thread's window
	shared   bool // counts in the bound over all threads
	// gone is closed when the attempt ends in the queue.
	gone chan struct{}
}

type state int

const (
	queued state = iota
	sent
	lost // not answered in time, and perhaps outstanding all the same
)

// match finds the tuple of an answer.
func (a *attempt) match(key []byte) (int, bool) {
	n := len(a.index)
	for j := a.next; j < a.next+n; j++ {
		at := j
		if at >= n {
			at -= n
		}
		if i := a.index[at]; i >= 0 && a.call.keys[i] == string(key) {
			a.index[at] = ^i
			if a.next = at + 1; a.next == n {
				a.next = 0
			}
			return int(i), true
		}
	}
	return 0, false
}

// settle takes n tuples off what is outstanding. Client.mu is held.
func (c *Client) settle(a *attempt, n int) {
	a.left -= n
	if a.state != lost {
		a.peer.room.give(n)
	}
	if a.windowed {
		a.peer.window.give(n)
	}
	if a.shared {
		a.peer.share.give(n)
		c.shared.give(n)
	}
	if a.left > 0 {
		return
	}
	delete(c.pending, a.id)
	if a.gone != nil {
		close(a.gone)
		a.gone = nil
	}
}

// watch looks at what is outstanding, again and again.
func (c *Client) watch() {
	defer c.wait.Done()
	ticker := time.NewTicker(c.o.limits.tick)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case now := <-ticker.C:
			c.expire(now)
		}
	}
}

func (c *Client) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// One that is asked again is given to a goroutine: the map does not change under us
	// but for what is deleted.
	for _, a := range c.pending {
		switch a.state {
		case queued:
			c.expireQueued(a, now)
		case sent:
			c.expireSent(a, now)
		case lost:
			c.expireLost(a, now)
		}
	}
}

// expireQueued: a request that was never sent is given up where its thread cannot be
// reached or does not answer; at once where that is known for long.
func (c *Client) expireQueued(a *attempt, now time.Time) {
	since := a.peer.stuck(now)
	waited := now.Sub(a.queuedAt)
	final := since > time.Duration(c.o.Tries)*c.o.Deadline && waited > c.o.limits.grace/5
	switch {
	case a.call.finished || a.call.ctx.Err() != nil:
	case final || min(since, waited) > c.o.Deadline:
	default:
		return
	}
	c.retry(a, final)
	c.settle(a, a.left)
}

// expireSent: patience counts from the last answer of the thread, which answers in
// order; but not without end, since it may have dropped this one.
func (c *Client) expireSent(a *attempt, now time.Time) {
	quiet := now.Sub(later(a.sentAt, a.peer.answeredAt))
	if now.Sub(c.arrives) < 2*c.o.limits.tick+time.Second {
		quiet = 0 // a large answer is on its way, perhaps this one
	}
	broken := !a.brokenAt.IsZero() && now.Sub(a.brokenAt) > c.o.limits.grace
	if !broken && quiet <= a.patience && now.Sub(a.sentAt) <= 4*a.patience {
		return
	}
	c.retry(a, false)
	if broken {
		c.settle(a, a.left)
		return
	}
	a.peer.room.give(a.left) // others may queue
	a.state, a.lostAt = lost, now
}

// expireLost: after a while it is no burden for the other threads. For its own thread
// it counts until that has answered a later one, or is gone.
func (c *Client) expireLost(a *attempt, now time.Time) {
	broken := !a.brokenAt.IsZero() && now.Sub(a.brokenAt) > c.o.limits.grace
	over := now.Sub(a.lostAt) > 4*c.o.Deadline
	if a.shared && (broken || over) {
		a.shared = false
		a.peer.share.give(a.left)
		c.shared.give(a.left)
	}
	if broken || over && a.peer.answeredSent.After(a.sentAt) {
		c.settle(a, a.left)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// result says what an answer to a PUT means.
func result(sent *wire.Tuple, raw wire.RawTuple) PutResult {
	r := PutResult{Key: sent.Key, Code: raw.Error}
	if raw.Error == wire.NoError {
		r.Done = raw.Lattice == sent.Lattice && sent.Lattice != wire.None
		r.Refused = !r.Done
	}
	return r
}
