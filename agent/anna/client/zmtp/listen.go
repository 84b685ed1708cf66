package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Listener takes connections until it is closed.
type Listener struct {
	listener net.Listener
	kind     Type
	serve    func(*Conn)
	cancel   context.CancelFunc
	ctx      context.Context

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	wait  sync.WaitGroup
}

// Listen binds host:port (an empty host: all) as a socket of a type, and calls serve
// in a goroutine of its own for every peer that has shaken hands; the connection is
// closed when serve returns.
func Listen(address string, t Type, serve func(*Conn)) (*Listener, error) {
	config := net.ListenConfig{KeepAliveConfig: keepAlive}
	listener, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	l := &Listener{listener: listener, kind: t, serve: serve, conns: map[net.Conn]struct{}{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wait.Add(1)
	go l.accept()
	return l, nil
}

// Port is the port it listens on.
func (l *Listener) Port() int { return l.listener.Addr().(*net.TCPAddr).Port }

// Close ends it and its connections, and waits for serve to return.
func (l *Listener) Close() error {
	l.cancel()
	err := l.listener.Close()
	l.mu.Lock()
	for raw := range l.conns {
		raw.Close()
	}
	l.mu.Unlock()
	l.wait.Wait()
	return err
}

func (l *Listener) accept() {
	defer l.wait.Done()
	pause := time.Duration(0)
	for {
		raw, err := l.listener.Accept()
		if err == nil {
			pause = 0
			l.take(raw)
			continue
		}
		if l.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		// No file descriptors left, most likely: it passes.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		select {
		case <-l.ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (l *Listener) take(raw net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		raw.Close()
		return
	}
	l.conns[raw] = struct{}{}
	l.wait.Add(1)
	go l.run(raw)
}

func (l *Listener) run(raw net.Conn) {
	defer func() {
		raw.Close()
		l.mu.Lock()
		delete(l.conns, raw)
		l.mu.Unlock()
		l.wait.Done()
	}()
	conn := newConn(raw)
	if conn.open(l.kind, time.Now().Add(handshakeTime)) == nil {
		l.serve(conn)
	}
}
