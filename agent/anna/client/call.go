package client

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// call is what a caller asked for, in as many requests as it takes. Its fields are
// guarded by Client.mu but for what is set when it is made.
type call struct {
	c      *Client
	ctx    context.Context
	shared bool // counts among those of all threads: PUTs, lookups, GETs of keys new to a thread
	part   int  // tuples a request
	// route tells the address of a try, the first is 1.
	route func(try int) (string, error)

	keys   []string     // a copy: answers may come when the caller has gone on
	tuples []wire.Tuple // of PUTs; the caller's until wait has returned
	// encoding is held while the tuples are read.
	encoding sync.Mutex

	kind     kind
	got      []wire.Tuple
	results  []PutResult
	owners   wire.AddressResponse
	answered []bool
	left     int
	err      error
	finished bool
	done     chan struct{}
}

type kind int

const (
	gets kind = iota
	puts
	lookup
)

// start sends a call; it waits for room at the thread.
func (c *Client) start(k *call) error {
	k.c, k.left, k.done = c, len(k.keys), make(chan struct{})
	k.answered = make([]bool, k.left)
	if k.left == 0 {
		k.finished = true
		close(k.done)
		return nil
	}
	index := make([]int32, 0, k.left)
	for i, key := range k.keys {
		if key != "" {
			index = append(index, int32(i))
		}
	}
	if len(index) < len(k.keys) {
		c.unsent(k)
	}
	if err := c.send(k, index, 1); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		k.finish(err)
		return err
	}
	return nil
}

// unsent answers for the empty key: asked for it, a KVS process ends.
func (c *Client) unsent(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, key := range k.keys {
		if key == "" {
			k.answer(i, wire.RawTuple{Error: wire.KeyDNE})
		}
	}
}

// send puts some of a call's tuples into a thread's queue, for the try'th time.
func (c *Client) send(k *call, index []int32, try int) error {
	address, err := k.route(try)
	if err != nil {
		return err
	}
	for len(index) > 0 {
		p, err := c.peer(address)
		if err != nil {
			return err
		}
		n := min(len(index), k.part)
		if k.shared {
			n = min(n, p.share.max())
		}
		part := index[:n:n]
		index = index[n:]
		if !p.room.take(n, k.ctx.Done(), c.ctx.Done()) {
			p.unref()
			return cmp.Or(k.ctx.Err(), ErrClosed)
		}
		if err := c.queue(&attempt{call: k, peer: p, index: part, left: n, try: try}); err != nil {
			p.room.give(n)
			p.unref()
			return err
		}
		p.unref()
	}
	return nil
}

// queue gives an attempt to the goroutine of its thread.
func (c *Client) queue(a *attempt) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return ErrClosed
	}
	c.last++
	a.id, a.queuedAt = c.last, time.Now()
	c.pending[a.id] = a
	if a.try > 1 {
		c.stats.Retried += uint64(a.left)
	}
	a.peer.queue <- a // it has room: the queue is as long as the room has tuples
	return nil
}

// retry sends what is not answered once more, or gives it up. Client.mu is held.
func (c *Client) retry(a *attempt, final bool) {
	k := a.call
	if k.finished {
		return
	}
	rest := make([]int32, 0, a.left)
	for _, i := range a.index {
		if i >= 0 && !k.answered[i] {
			rest = append(rest, i)
		}
	}
	switch {
	case len(rest) == 0:
	case k.ctx.Err() != nil:
		k.finish(k.ctx.Err())
	case c.closing:
		k.finish(ErrClosed)
	case final || a.try >= c.o.Tries:
		k.giveUp(rest)
	default:
		c.wait.Add(1)
		go func() {
			defer c.wait.Done()
			if err := c.send(k, rest, a.try+1); err != nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				k.finish(err)
			}
		}()
	}
}

// giveUp ends tuples that nobody has answered. Client.mu is held.
func (k *call) giveUp(rest []int32) {
	for _, i := range rest {
		k.c.stats.TimedOut++
		k.answer(int(i), wire.RawTuple{Error: wire.Timeout})
	}
}

// answer takes what came for a tuple. Client.mu is held.
func (k *call) answer(i int, raw wire.RawTuple) {
	if k.finished || k.answered[i] {
		return
	}
	switch k.kind {
	case gets:
		k.got[i] = wire.Tuple{Key: k.keys[i], Lattice: raw.Lattice, Error: raw.Error, Payload: raw.Payload, Invalidate: raw.Invalidate}
	case puts:
		k.results[i] = result(&k.tuples[i], raw)
	case lookup:
		k.owners.Error = raw.Error
	}
	k.answered[i] = true
	if k.left--; k.left == 0 {
		k.finish(nil)
	}
}

// finish ends a call; what comes later is not for it. Client.mu is held.
func (k *call) finish(err error) {
	if k.finished {
		return
	}
	k.finished, k.err = true, err
	close(k.done)
}

// wait waits for the end of a call, or ends it with the context. After it nothing
// reads the tuples.
func (k *call) wait(ctx context.Context) error {
	var err error
	select {
	case <-k.done:
	case <-k.c.ctx.Done():
		err = ErrClosed
	case <-k.ctx.Done():
		err = k.ctx.Err()
	case <-ctx.Done():
		err = ctx.Err()
	}
	k.c.mu.Lock()
	k.finish(err)
	err = k.err
	k.c.mu.Unlock()
	k.encoding.Lock() // one that was under way
	defer k.encoding.Unlock()
	return err
}
