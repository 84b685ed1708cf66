package restore

import (
	"io"
	"net"
	"slices"
	"sync"
)

// balancer takes connections and gives each to one of several ports, in turn, as a
// Service does. What is closed on one side is closed on the other.
type balancer struct {
	listener net.Listener

	mu    sync.Mutex
	ports []int
	next  int
	open  []net.Conn
}

func newBalancer() (*balancer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &balancer{listener: l}
	go b.run()
	return b, nil
}

func (b *balancer) port() int { return b.listener.Addr().(*net.TCPAddr).Port }

// to has later connections go to these ports, and ends those that are open.
func (b *balancer) to(ports ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ports = ports
	b.cut()
}

// shuffle ends the connections that are open: the next may go elsewhere.
func (b *balancer) shuffle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut()
}

func (b *balancer) cut() {
	for _, c := range b.open {
		_ = c.Close()
	}
	b.open = nil
}

func (b *balancer) stop() {
	_ = b.listener.Close()
	b.shuffle()
}

func (b *balancer) run() {
	for {
		c, err := b.listener.Accept()
		if err != nil {
			return
		}
		go b.serve(c)
	}
}

func (b *balancer) serve(in net.Conn) {
	defer func() { _ = in.Close() }()
	out := b.dial()
	if out == nil {
		return // as where nobody listens
	}
	defer func() { _ = out.Close() }()
	b.mu.Lock()
	b.open = append(b.open, in, out)
	b.mu.Unlock()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			done <- struct{}{}
		}()
	}
	<-done
	b.mu.Lock()
	b.open = slices.DeleteFunc(b.open, func(c net.Conn) bool { return c == in || c == out })
	b.mu.Unlock()
}

// dial finds a replica that is there.
func (b *balancer) dial() net.Conn {
	b.mu.Lock()
	ports := slices.Clone(b.ports)
	first := b.next
	b.next++
	b.mu.Unlock()
	for i := range ports {
		address := net.JoinHostPort("127.0.0.1", itoa(ports[(first+i)%len(ports)]))
		if c, err := net.Dial("tcp", address); err == nil {
			return c
		}
	}
	return nil
}
