package nodeserver

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Connections that are served at a time. The controller needs a handful; whoever
// holds more, from one address or from many, is hung up on, so that he keeps
// nobody else out.
const (
	mostConnections = 64
	mostOfOne       = 8
)

// limited is a listener that closes the connections that are too many.
type limited struct {
	net.Listener
	mutex sync.Mutex
	open  map[string]int // by address
	total int
}

func newLimited(l net.Listener) *limited { return &limited{Listener: l, open: map[string]int{}} }

func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		who, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		if l.enter(who) {
			return &counted{Conn: conn, leave: sync.OnceFunc(func() { l.leave(who) })}, nil
		}
		conn.Close()
	}
}

func (l *limited) enter(who string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.total >= mostConnections || l.open[who] >= mostOfOne {
		return false
	}
	l.total++
	l.open[who]++
	return true
}

func (l *limited) leave(who string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.total--
	if l.open[who]--; l.open[who] == 0 {
		delete(l.open, who)
	}
}

type counted struct {
	net.Conn
	leave func()
}

func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}

// mostWaiting is how many may wait for a lookup while another is made.
const mostWaiting = 8

var errBusy = errors.New("too many lookups wait already: ask again")

// turns lets one lookup run at a time: each takes memory that is Medusa's too.
type turns struct {
	running, waiting chan struct{}
}

func newTurns() turns {
	return turns{make(chan struct{}, 1), make(chan struct{}, 1+mostWaiting)}
}

// take waits for a turn, which ends with done.
func (t turns) take(ctx context.Context) (done func(), err error) {
	select {
	case t.waiting <- struct{}{}:
	default:
		return nil, errBusy
	}
	select {
	case t.running <- struct{}{}:
		return func() { <-t.running; <-t.waiting }, nil
	case <-ctx.Done():
		<-t.waiting
		return nil, context.Cause(ctx)
	}
}
