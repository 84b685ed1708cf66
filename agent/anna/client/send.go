package client

import (
	"context"
	"strconv"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

const (
	dialTime  = 5 * time.Second
	firstWait = 100 * time.Millisecond // after a failed dial, doubled up to lastWait
	lastWait  = 2 * time.Second
	// speed is what a thread takes large values at, at least, in bytes a millisecond.
	speed = 4 << 10
)

// send waits until a request may be sent, and sends it.
func (p *peer) send(a *attempt) {
	gone := p.watched(a)
	if gone == nil {
		return
	}
	conn := p.connected(gone)
	if conn == nil || !p.admitted(a, gone) {
		p.wanted(a)
		return
	}
	k := a.call
	k.encoding.Lock()
	begun := p.begin(a, conn)
	if begun {
		p.buffer = p.encode(p.buffer[:0], a)
	}
	k.encoding.Unlock()
	if !begun {
		return
	}
	patience := p.c.o.Deadline + time.Duration(len(p.buffer)/speed)*time.Millisecond
	p.c.mu.Lock()
	a.patience = patience
	p.c.mu.Unlock()
	conn.SetWriteDeadline(time.Now().Add(patience))
	if err := conn.Write(p.buffer); err != nil {
		conn.Close() // whoever drains it tells that it is broken
	}
	if cap(p.buffer) > 4<<20 {
		p.buffer = nil
	}
}

func (p *peer) flush() {
	p.c.mu.Lock()
	conn := p.conn
	p.c.mu.Unlock()
	if conn == nil || conn.Buffered() == 0 {
		return
	}
	conn.SetWriteDeadline(time.Now().Add(p.c.o.Deadline))
	if err := conn.Flush(); err != nil {
		conn.Close()
	}
}

// watched is a channel that is closed when the attempt is no longer wanted, or nil
// when it is not now.
func (p *peer) watched(a *attempt) <-chan struct{} {
	if !p.wanted(a) {
		return nil
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if a.left == 0 {
		return nil
	}
	a.gone = make(chan struct{})
	return a.gone
}

// wanted tells whether an attempt still is to be sent. Where not, nothing of it counts
// any more.
func (p *peer) wanted(a *attempt) bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if a.left > 0 && (p.c.closing || a.call.finished) {
		a.call.finish(ErrClosed)
		p.c.settle(a, a.left)
	}
	return a.left > 0
}

// connected dials until there is a connection, or the attempt is gone.
func (p *peer) connected(gone <-chan struct{}) *zmtp.Conn {
	wait := firstWait
	for {
		p.c.mu.Lock()
		conn := p.conn
		if conn == nil && p.downSince.IsZero() {
			p.downSince = time.Now()
		}
		p.c.mu.Unlock()
		if conn != nil {
			return conn
		}
		ctx, cancel := context.WithTimeout(p.c.ctx, dialTime)
		conn, err := zmtp.Dial(ctx, p.dial, zmtp.Push)
		cancel()
		if err == nil {
			p.connect(conn)
			return conn
		}
		p.c.o.Log.Debug("a thread of Anna cannot be reached", "address", p.address, "err", err)
		select {
		case <-gone:
			return nil
		case <-p.c.ctx.Done():
			return nil
		case <-time.After(wait):
			wait = min(2*wait, lastWait)
		}
	}
}

// connect begins with a new connection. Behind it may be another process, so nothing is
// known of it.
func (p *peer) connect(conn *zmtp.Conn) {
	p.window.set(unproven)
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.conn, p.downSince = conn, time.Time{}
	p.c.wait.Add(1)
	go func() {
		defer p.c.wait.Done()
		conn.Drain()
		conn.Close()
		p.broken(conn)
	}()
}

// broken marks what was sent over a connection that has ended: if the process behind
// it has ended, nothing of it will be answered.
func (p *peer) broken(conn *zmtp.Conn) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.conn == conn {
		p.conn = nil
	}
	for _, a := range p.c.pending {
		if a.conn == conn {
			a.brokenAt = time.Now()
		}
	}
}

// admitted waits for the bounds, as long as the attempt is wanted.
func (p *peer) admitted(a *attempt, gone <-chan struct{}) bool {
	n := len(a.index)
	if !p.take(p.window, n, gone) {
		return false
	}
	if !a.call.shared {
		return true
	}
	if !p.take(p.share, n, gone) {
		p.window.give(n)
		return false
	}
	if !p.take(p.c.shared, n, gone) {
		p.window.give(n)
		p.share.give(n)
		return false
	}
	return true
}

func (p *peer) take(b *bound, n int, gone <-chan struct{}) bool {
	if b.try(n) {
		return true
	}
	p.flush() // what others are waiting for
	if b != p.c.shared {
		// The thread's own fault, if it does not answer.
		p.full(time.Now())
		defer p.full(time.Time{})
	}
	return b.take(n, gone, p.c.ctx.Done())
}

func (p *peer) full(since time.Time) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.fullSince = since
}

// begin turns a queued attempt into a sent one, if it is still wanted.
func (p *peer) begin(a *attempt, conn *zmtp.Conn) bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	a.windowed, a.shared = true, a.call.shared
	if a.left == 0 { // ended just now, and has given up its room
		a.left = len(a.index)
		a.state = lost
	}
	if a.state != queued || a.call.finished {
		p.c.settle(a, a.left)
		return false
	}
	a.gone = nil
	a.state, a.sentAt, a.patience, a.conn = sent, time.Now(), p.c.o.Deadline, conn
	p.c.stats.Sent += uint64(a.left)
	if p.conn != conn {
		a.brokenAt = a.sentAt
	}
	return true
}

// encode writes the request of an attempt.
func (p *peer) encode(b []byte, a *attempt) []byte {
	var scratch [40]byte
	k := a.call
	id := strconv.AppendUint(append(scratch[:0], p.c.prefix...), a.id, 36)
	if k.kind == lookup {
		request := wire.AddressRequest{ResponseAddress: p.c.ownersAt, Keys: k.keys, ID: string(id)}
		return request.Append(b)
	}
	if k.kind == puts {
		b = wire.AppendHead(b, wire.Put, p.c.keysAt, id)
		for _, i := range a.index {
			b = wire.AppendTuple(b, &k.tuples[i])
		}
		return b
	}
	b = wire.AppendHead(b, wire.Get, p.c.keysAt, id)
	for _, i := range a.index {
		tuple := wire.Tuple{Key: k.keys[i]}
		b = wire.AppendTuple(b, &tuple)
	}
	return b
}
