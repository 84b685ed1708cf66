package client

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

func TestDeadServerKeepsNobodyWaiting(t *testing.T) {
	f := newFake(t)
	f.set("a", "x")
	c := f.client(func(o *Options) { o.hurry = time.Minute })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "tcp://" + closed.Addr().String()
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, at := range []string{dead, "tcp://" + silent.Addr().String()} {
		if _, err := c.GetAsync(t.Context(), at, keysOf(800)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.PutAsync(t.Context(), "tcp://localhost:"+at[len("tcp://127.0.0.1:"):], lwwTuples(800)); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		results, err := c.Put(t.Context(), f.kvs, lwwTuples(200))
		if err != nil || !results[0].Done {
			t.Fatalf("%+v, %v", results[0], err)
		}
	}
	waitFor(t, "what was never sent does not count", func() bool { return c.Stats().Outstanding == 0 })
}

func TestDeadServerTimesOut(t *testing.T) {
	f := newFake(t)
	c := f.client(func(o *Options) { o.hurry = 50 * time.Millisecond })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	got, err := c.Get(t.Context(), "tcp://"+closed.Addr().String(), keysOf(2000))
	if err != nil || got[0].Error != wire.Timeout || got[1999].Error != wire.Timeout {
		t.Errorf("%v, %v", got[0], err)
	}
}

func TestCancelledCallsLeaveNothingBehind(t *testing.T) {
	f := newFake(t)
	c := f.client(func(o *Options) { o.hurry = time.Minute })
	f.proven(c)
	hold := make(chan struct{})
	f.mu.Lock()
	f.hold = hold
	f.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.Get(ctx, f.kvs, keysOf(5000))
		done <- err
	}()
	waitFor(t, "the bound is reached", func() bool { return f.seen() == MaxOutstanding })
	cancel()
	if err := <-done; err == nil {
		t.Error("no error of a cancelled call")
	}
	close(hold) // the answers come all the same, and are read
	waitFor(t, "all is read", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.pending) == 0
	})
	f.proven(c)
}

// A server that comes back on its port is found again, and what it had taken is asked
// again.
func TestServerComesBack(t *testing.T) {
	f := newFake(t)
	c := f.client(func(o *Options) { o.hurry, o.Tries = 10*time.Second, 20 })
	requests := make(chan *zmtp.Conn, 16)
	listener, err := zmtp.Listen("127.0.0.1:0", zmtp.Pull, func(conn *zmtp.Conn) {
		for {
			if _, err := conn.Recv(); err != nil {
				return
			}
			requests <- conn
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", portOf(listener))
	g, err := c.GetAsync(t.Context(), "tcp://"+address, []string{"k"})
	if err != nil {
		t.Fatal(err)
	}
	<-requests
	listener.Close() // it dies with the request
	answer := func(conn *zmtp.Conn) {
		for {
			frames, err := conn.Recv()
			if err != nil {
				return
			}
			request, err := wire.ParseKeyRequest(frames[0])
			if err != nil {
				t.Error(err)
			}
			for _, response := range f.asAnna(request) {
				f.push(request.ResponseAddress, response.Append(nil))
			}
		}
	}
	// Somebody's connection may have been given the port meanwhile.
	waitFor(t, "its port is free", func() bool { listener, err = zmtp.Listen(address, zmtp.Pull, answer); return err == nil })
	defer listener.Close()
	got, err := g.Wait(t.Context())
	if err != nil || got[0].Error != wire.KeyDNE {
		t.Errorf("%+v, %v", got, err)
	}
}

func portOf(l *zmtp.Listener) string { return strconv.Itoa(l.Port()) }

// Idle threads are forgotten: addresses change for ever.
func TestIdleThreadsAreForgotten(t *testing.T) {
	f := newFake(t)
	c := f.client(func(o *Options) { o.limits.idle = 30 * time.Millisecond })
	f.proven(c)
	waitFor(t, "it is forgotten", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.peers) == 0
	})
	f.proven(c)
}
