package client

import (
	"net"
	"strconv"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// peer is a thread that requests are sent to: a queue, a goroutine and a connection, so
// that one that is dead keeps nobody else waiting.
type peer struct {
	c       *Client
	address string
	dial    string // host:port
	queue   chan *attempt
	room    *bound // tuples in the queue or outstanding
	window  *bound // tuples outstanding
	share   *bound // those of them that count over all threads

	// Guarded by Client.mu.
	refs         int
	downSince    time.Time // zero: connected, or nothing to send
	fullSince    time.Time // zero: not waiting for the window
	answeredAt   time.Time
	answeredSent time.Time // when the newest request was sent that has been answered
	conn         *zmtp.Conn

	buffer []byte // of the goroutine
}

// peer finds or makes the peer of an address. It stays until unref.
func (c *Client) peer(address string) (*peer, error) {
	host, port, err := wire.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return nil, ErrClosed
	}
	p := c.peers[address]
	if p == nil {
		p = &peer{
			c: c, address: address, dial: net.JoinHostPort(host, strconv.Itoa(port)),
			queue: make(chan *attempt, MaxOutstanding), room: newBound(MaxOutstanding),
			window: newBound(unproven), share: newBound(share(c.o.Outstanding)),
		}
		c.peers[address] = p
		c.wait.Add(1)
		go p.run()
	}
	p.refs++
	return p, nil
}

func (p *peer) unref() {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.refs--
}

// stuck is for how long the thread could not be reached or has not answered though
// its window is full. Client.mu is held.
func (p *peer) stuck(now time.Time) time.Duration {
	switch {
	case !p.downSince.IsZero():
		return now.Sub(p.downSince)
	case !p.fullSince.IsZero():
		return now.Sub(later(p.fullSince, p.answeredAt))
	}
	return 0
}

// run sends what is queued until there has been nothing for a while.
func (p *peer) run() {
	defer p.c.wait.Done()
	defer p.hangUp()
	idle := time.NewTicker(p.c.o.limits.idle)
	defer idle.Stop()
	busy := true
	for {
		select {
		case a := <-p.queue:
			p.send(a)
			if len(p.queue) == 0 {
				p.flush()
			}
			busy = true
		case <-idle.C:
			if !busy && p.retire() {
				return
			}
			busy = false
		case <-p.c.ctx.Done():
			return
		}
	}
}

// retire takes the peer off the client, unless somebody is using it.
func (p *peer) retire() bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.refs > 0 || len(p.queue) > 0 || p.window.inUse() > 0 {
		return false
	}
	delete(p.c.peers, p.address)
	return true
}

func (p *peer) hangUp() {
	p.c.mu.Lock()
	conn := p.conn
	p.conn = nil
	p.c.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}
