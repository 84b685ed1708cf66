package membership

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// askLimit is for one answer, and for one message to be taken. A routing node that is
// caught in a loop never answers.
const askLimit = 10 * time.Second

// ZeroMQ sends over ZeroMQ, each message on a connection of its own: few are sent, and
// one that stays would have to be watched. Package client could do the same, but has two
// ports bound for answers, which beside routing nobody sends.
type ZeroMQ struct{}

// talk connects to a socket, and ends the connection behind what is done with it or with
// the context.
func talk(ctx context.Context, host string, port int, as zmtp.Type, do func(*zmtp.Conn) error) error {
	if err := wire.CheckHost(host); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askLimit, fmt.Errorf("no answer within %v", askLimit))
	defer cancel()
	conn, err := zmtp.Dial(ctx, net.JoinHostPort(host, strconv.Itoa(port)), as)
	if err == nil {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		err = do(conn)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Members implements Messenger.
func (ZeroMQ) Members(ctx context.Context, host string) (m wire.Membership, err error) {
	err = talk(ctx, host, wire.PortSeed, zmtp.Req, func(conn *zmtp.Conn) error {
		// A REQ socket puts an empty frame before its question, and gets it back.
		if err := conn.Send(nil, []byte("join")); err != nil {
			return err
		}
		frames, err := conn.Recv()
		if err != nil {
			return err
		}
		if len(frames) != 2 || len(frames[0]) != 0 {
			return fmt.Errorf("%w: an answer of %d frames", zmtp.ErrProtocol, len(frames))
		}
		m, err = wire.ParseMembership(frames[1])
		return err
	})
	if err != nil {
		return m, fmt.Errorf("ask routing node %s for the members: %w", host, err)
	}
	return m, nil
}

// Push implements Messenger.
func (ZeroMQ) Push(ctx context.Context, host string, port int, message string) error {
	err := talk(ctx, host, port, zmtp.Push, func(conn *zmtp.Conn) error {
		if err := conn.Send([]byte(message)); err != nil {
			return err
		}
		return conn.Finish(time.Now().Add(askLimit))
	})
	if err != nil {
		return fmt.Errorf("send %q to %s port %d: %w", message, host, port, err)
	}
	return nil
}

// listen takes acknowledgements at a port of the loopback until the context ends.
func listen(ctx context.Context) (at string, messages <-chan string, err error) {
	taken := make(chan string, 64)
	listener, err := zmtp.Listen("127.0.0.1:0", zmtp.Pull, func(conn *zmtp.Conn) {
		for {
			frames, err := conn.Recv()
			if err != nil {
				return
			}
			for _, frame := range frames {
				select {
				case taken <- string(frame):
				case <-ctx.Done():
					return
				}
			}
		}
	})
	if err != nil {
		return "", nil, fmt.Errorf("listen for acknowledgements: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	at, err = wire.Address("127.0.0.1", listener.Port())
	return at, taken, err
}

// Listens tells whether somebody takes connections at an address.
func Listens(ctx context.Context, host string, port int) bool {
	dialer := net.Dialer{Timeout: 2 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
