package zmtp

import (
	"context"
	"net"
	"os"
	"sync"
)

// Listener is a bound PULL or REP socket.
type Listener struct {
	l      net.Listener
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Pull binds a PULL socket. handle is called with each message, which it may
// keep, on a goroutine of the message's connection: while it blocks, that peer
// is not read.
func Pull(endpoint string, handle func(ctx context.Context, message []byte)) (*Listener, error) {
	return listen(endpoint, "PULL", func(ctx context.Context, c *conn) error {
		for {
			message, err := c.readMessage()
			if err != nil {
				return err
			}
			handle(ctx, message)
		}
	})
}

// Reply binds a REP socket. answer is called for one request at a time.
func Reply(endpoint string, answer func(ctx context.Context, message []byte) []byte) (*Listener, error) {
	var one sync.Mutex
	return listen(endpoint, "REP", func(ctx context.Context, c *conn) error {
		for {
			message, err := c.readMessage()
			if err != nil {
				return err
			}
			one.Lock()
			reply := answer(ctx, message)
			one.Unlock()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := c.writeFrame(flagMore, nil); err != nil {
				return err
			}
			if err := c.writeFrame(0, reply); err != nil {
				return err
			}
			if err := c.w.Flush(); err != nil {
				return err
			}
		}
	})
}

func listen(endpoint, kind string, serve func(context.Context, *conn) error) (*Listener, error) {
	network, address, err := split(endpoint)
	if err != nil {
		return nil, err
	}
	if network == "unix" {
		_ = os.Remove(address) // what a killed process left, as libzmq does
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	z := &Listener{l: l, cancel: cancel}
	z.wg.Go(func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			z.wg.Go(func() {
				defer func() { _ = raw.Close() }()
				stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
				defer stop()
				c, _, err := handshake(raw, kind)
				if err != nil {
					return
				}
				_ = serve(ctx, c) // ends with the peer
			})
		}
	})
	return z, nil
}

// Addr is where the socket is bound.
func (z *Listener) Addr() net.Addr { return z.l.Addr() }

// Close unbinds and drops the connections.
func (z *Listener) Close() {
	z.cancel()
	_ = z.l.Close()
	z.wg.Wait()
}
