package client

import (
	"bytes"
	"strconv"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// readKeys reads the answers of one server thread. It never waits for anybody: an
// answer is put where it belongs or thrown away.
func (c *Client) readKeys(conn *zmtp.Conn) {
	conn.Progress = c.progress
	for {
		frames, err := conn.Recv()
		if err != nil {
			return
		}
		for _, frame := range frames {
			c.keysAnswered(frame)
		}
	}
}

// readOwners does the same with the answers of a routing thread.
func (c *Client) readOwners(conn *zmtp.Conn) {
	for {
		frames, err := conn.Recv()
		if err != nil {
			return
		}
		for _, frame := range frames {
			c.ownersAnswered(frame)
		}
	}
}

func (c *Client) progress() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrives = time.Now()
}

func (c *Client) keysAnswered(frame []byte) {
	id, err := wire.KeyResponseID(frame)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.stats.Malformed++
		return
	}
	a := c.known(id, false)
	if a == nil {
		return
	}
	answered := 0
	err = wire.ScanKeyResponse(frame, func(raw wire.RawTuple) {
		i, found := a.match(raw.Key)
		if !found {
			c.stats.Unknown++
			return
		}
		answered++
		a.call.answer(i, raw)
	})
	if err != nil {
		c.stats.Malformed++
	}
	c.heard(a, answered)
}

func (c *Client) ownersAnswered(frame []byte) {
	response, err := wire.ParseAddressResponse(frame)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.stats.Malformed++
		return
	}
	a := c.known([]byte(response.ID), true)
	if a == nil {
		return
	}
	if _, found := a.match([]byte(a.call.keys[0])); !found {
		c.stats.Unknown++
		return
	}
	if !a.call.finished {
		a.call.owners = response
	}
	a.call.answer(0, wire.RawTuple{Error: response.Error})
	c.heard(a, 1)
}

// known finds the attempt of an id. Client.mu is held.
func (c *Client) known(id []byte, owners bool) *attempt {
	number, ours := bytes.CutPrefix(id, []byte(c.prefix))
	n, err := strconv.ParseUint(string(number), 36, 64)
	if a := c.pending[n]; ours && err == nil && a != nil && a.state != queued && (a.call.kind == lookup) == owners {
		return a
	}
	c.stats.Unknown++
	return nil
}

// heard takes note of an answer. Client.mu is held.
func (c *Client) heard(a *attempt, tuples int) {
	p := a.peer
	p.answeredAt = time.Now()
	p.answeredSent = later(p.answeredSent, a.sentAt)
	p.window.set(MaxOutstanding)
	c.stats.Answered += uint64(tuples)
	c.settle(a, tuples)
}
