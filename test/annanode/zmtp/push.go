package zmtp

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is what a closed socket answers.
var ErrClosed = errors.New("the socket is closed")

// redial is the pause between two attempts to connect, libzmq's default.
const redial = 100 * time.Millisecond

// Push is a PUSH socket connected to one endpoint, which need not be there.
type Push struct {
	endpoint string
	queue    chan []byte
	queued   atomic.Int64 // handed to Send and not yet taken, also while Send blocks
	left     atomic.Int64 // handed to Send and not yet with the kernel
	cancel   context.CancelFunc
	stopped  context.Context
	done     chan struct{}
	once     sync.Once
}

// NewPush connects to endpoint in the background.
func NewPush(endpoint string) *Push {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Push{
		endpoint: endpoint,
		queue:    make(chan []byte, HighWater),
		cancel:   cancel, stopped: ctx, done: make(chan struct{}),
	}
	go p.run()
	return p
}

// Send queues a message, which it keeps. It blocks while [HighWater] are queued,
// until ctx ends or the socket is closed.
func (p *Push) Send(ctx context.Context, message []byte) error {
	p.queued.Add(1)
	p.left.Add(1)
	select {
	case p.queue <- message:
		return nil
	default:
	}
	var err error
	select {
	case p.queue <- message:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-p.stopped.Done():
		err = ErrClosed
	}
	p.queued.Add(-1)
	p.left.Add(-1)
	return err
}

// Queued is the number of messages that wait for the peer.
func (p *Push) Queued() int { return int(p.queued.Load()) }

// Flush waits until everything queued is written, or ctx ends.
func (p *Push) Flush(ctx context.Context) error {
	for p.left.Load() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.stopped.Done():
			return ErrClosed
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// Close drops what is queued.
func (p *Push) Close() {
	p.once.Do(p.cancel)
	<-p.done
}

func (p *Push) run() {
	defer close(p.done)
	var unsent []byte
	for p.stopped.Err() == nil {
		c := p.connect()
		if c == nil {
			return
		}
		var lost int64
		unsent, lost = p.serve(c, unsent)
		p.left.Add(-lost)
		_ = c.Close()
	}
}

func (p *Push) connect() *conn {
	for p.stopped.Err() == nil {
		if c, err := dial(p.stopped, p.endpoint, "PUSH"); err == nil {
			return c
		}
		select {
		case <-p.stopped.Done():
		case <-time.After(redial):
		}
	}
	return nil
}

// serve writes until the peer goes. The message that could not be written is kept
// for the next connection; those in the buffer are lost, as with libzmq.
func (p *Push) serve(c *conn, unsent []byte) (kept []byte, buffered int64) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			if _, _, err := c.readFrame(); err != nil {
				return
			}
		}
	}()
	stop := context.AfterFunc(p.stopped, func() { _ = c.Close() })
	defer stop()
	for {
		message := unsent
		unsent = nil
		if message == nil {
			select {
			case message = <-p.queue:
			default:
				if c.w.Flush() != nil {
					return nil, buffered
				}
				p.left.Add(-buffered)
				buffered = 0
				select {
				case message = <-p.queue:
				case <-gone:
					return nil, 0
				case <-p.stopped.Done():
					return nil, 0
				}
			}
			p.queued.Add(-1)
		}
		if c.writeFrame(0, message) != nil {
			return message, buffered
		}
		buffered++
	}
}

func dial(ctx context.Context, endpoint, kind string) (*conn, error) {
	network, address, err := split(endpoint)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: 10 * time.Second}
	raw, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	c, _, err := handshake(raw, kind)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return c, nil
}

// Ask sends one message on a new REQ socket and waits for the answer: as Anna
// does, it goes on for ever when nobody answers; ctx bounds it.
func Ask(ctx context.Context, endpoint string, message []byte) ([]byte, error) {
	for {
		answer, err := askOnce(ctx, endpoint, message)
		if err == nil {
			return answer, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(redial):
		}
	}
}

func askOnce(ctx context.Context, endpoint string, message []byte) ([]byte, error) {
	c, err := dial(ctx, endpoint, "REQ")
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := c.writeFrame(flagMore, nil); err != nil {
		return nil, err
	}
	if err := c.writeFrame(0, message); err != nil {
		return nil, err
	}
	if err := c.w.Flush(); err != nil {
		return nil, err
	}
	return c.readMessage()
}
