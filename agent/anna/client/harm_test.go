package client

import (
	"context"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

func lwwTuples(n int) []wire.Tuple {
	tuples := make([]wire.Tuple, n)
	for i, key := range keysOf(n) {
		tuples[i] = wire.Tuple{Key: key, Lattice: wire.TypeLWW, Payload: wire.AppendLWW(nil, wire.LWW{Timestamp: 1, Value: []byte("x")})}
	}
	return tuples
}

func (f *fake) seen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// sent is how many tuples the fake was asked for.
func (f *fake) sent() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.requests {
		n += len(r.Tuples)
	}
	return n
}

func (f *fake) mostSeen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

// proven lets the fake answer once, so that the client knows it can.
func (f *fake) proven(c *Client) {
	f.t.Helper()
	waitFor(f.t, "the fake answers", func() bool {
		got, err := c.Get(f.t.Context(), f.kvs, []string{"proof"})
		return err == nil && got[0].Error == wire.KeyDNE
	})
}

func TestNoMoreThanTheBoundsIsOutstanding(t *testing.T) {
	for _, test := range []struct {
		name              string
		outstanding, want int
		run               func(*fake, *Client) error
	}{
		{"GETs of one thread", 0, 800, func(f *fake, c *Client) error {
			_, err := c.Get(context.Background(), f.kvs, keysOf(3000))
			return err
		}},
		{"PUTs", 600, 300, func(f *fake, c *Client) error { // half of it for one thread
			_, err := c.Put(context.Background(), f.kvs, lwwTuples(1000))
			return err
		}},
		{"few PUTs", 7, 3, func(f *fake, c *Client) error {
			_, err := c.Put(context.Background(), f.kvs, lwwTuples(30))
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			c := f.client(func(o *Options) { o.Outstanding, o.hurry = test.outstanding, time.Minute })
			f.proven(c)
			hold := make(chan struct{})
			f.mu.Lock()
			f.hold = hold
			f.mu.Unlock()
			done := make(chan error, 1)
			go func() { done <- test.run(f, c) }()
			waitFor(t, "the bound is reached", func() bool { return f.seen() == test.want })
			time.Sleep(50 * time.Millisecond) // for what should not come
			close(hold)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if most := f.mostSeen(); most > test.want {
				t.Errorf("%d tuples were outstanding, want %d at most", most, test.want)
			}
			waitFor(t, "nothing counts any more", func() bool { return c.Stats().Outstanding == 0 })
		})
	}
}

func TestSetOutstandingTakesEffect(t *testing.T) {
	f := newFake(t)
	c := f.client(func(o *Options) { o.hurry = time.Minute })
	f.proven(c)
	c.SetOutstanding(20)
	hold := make(chan struct{})
	f.mu.Lock()
	f.hold = hold
	f.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		_, err := c.Put(context.Background(), f.kvs, lwwTuples(100))
		done <- err
	}()
	waitFor(t, "the bound is reached", func() bool { return f.seen() == 10 })
	time.Sleep(50 * time.Millisecond)
	close(hold)
	if err := <-done; err != nil || f.mostSeen() > 10 {
		t.Errorf("%d outstanding, %v", f.mostSeen(), err)
	}
}

// A thread that cannot reach us has every answer in a queue; it blocks at a thousand.
func TestThreadThatNeverAnsweredGetsFewTuples(t *testing.T) {
	f := newFake(t)
	f.answer = func(wire.KeyRequest) []wire.KeyResponse { return nil }
	c := f.client(func(o *Options) { o.hurry = 50 * time.Millisecond })
	for range 10 {
		if _, err := c.Get(t.Context(), f.kvs, keysOf(10)); err != nil {
			t.Fatal(err)
		}
	}
	if sent := f.sent(); sent > unproven {
		t.Errorf("%d tuples were sent to a thread that never answered, want %d at most", sent, unproven)
	}
}

// The same for one that has answered and then stands still: the sum stays below what
// it can queue, however often the caller tries.
func TestThreadThatStandsStillGetsNoMore(t *testing.T) {
	f := newFake(t)
	c := f.client(func(o *Options) { o.hurry = 50 * time.Millisecond })
	f.proven(c)
	f.mu.Lock()
	f.answer = func(wire.KeyRequest) []wire.KeyResponse { return nil }
	f.requests = nil
	f.mu.Unlock()
	for range 8 {
		got, err := c.Get(t.Context(), f.kvs, keysOf(300))
		if err != nil || got[299].Error != wire.Timeout {
			t.Fatal(got[299].Error, err)
		}
		results, err := c.Put(t.Context(), f.kvs, lwwTuples(300))
		if err != nil || results[299].Code != wire.Timeout {
			t.Fatal(results[299], err)
		}
	}
	sent := f.sent()
	f.mu.Lock()
	f.answer = nil
	late := f.requests
	f.mu.Unlock()
	if sent > MaxOutstanding {
		t.Errorf("%d tuples were sent, want %d at most", sent, MaxOutstanding)
	}
	// It answers after all, and everything goes on.
	for _, r := range late {
		for _, response := range f.asAnna(r) {
			f.push(r.ResponseAddress, response.Append(nil))
		}
	}
	waitFor(t, "a GET is answered", func() bool {
		got, err := c.Get(t.Context(), f.kvs, keysOf(1))
		return err == nil && got[0].Error == wire.KeyDNE
	})
}

// A request that a thread has dropped stops to count when later ones are answered.
func TestDroppedRequestsDoNotCountForEver(t *testing.T) {
	f := newFake(t)
	c := f.client(func(o *Options) { o.hurry, o.Tries = 500*time.Millisecond, 1 })
	// What a busy machine answered too late counts at first.
	waitFor(t, "nothing counts before", func() bool { f.proven(c); s := c.Stats(); return s.Lost == 0 && s.Outstanding == 0 })
	f.answer = func(r wire.KeyRequest) []wire.KeyResponse {
		if len(r.Tuples) == 50 {
			return nil
		}
		return f.asAnna(r)
	}
	if _, err := c.Put(t.Context(), f.kvs, lwwTuples(50)); err != nil {
		t.Fatal(err)
	}
	if s := c.Stats(); s.Lost != 50 {
		t.Errorf("just after it: %+v", s)
	}
	waitFor(t, "nothing counts", func() bool {
		f.proven(c)
		s := c.Stats()
		return s.Lost == 0 && s.Outstanding == 0
	})
}

// The empty key ends a KVS process that is asked for it.
func TestTheEmptyKeyIsNeverSent(t *testing.T) {
	f := newFake(t)
	c := f.client(nil)
	keys := []string{"", "a", ""}
	got, err := c.Get(t.Context(), f.kvs, keys)
	if err != nil || got[0].Error != wire.KeyDNE || got[2].Error != wire.KeyDNE || got[1].Error != wire.KeyDNE {
		t.Errorf("%+v, %v", got, err)
	}
	results, err := c.Put(t.Context(), f.kvs, []wire.Tuple{{Lattice: wire.TypeLWW}})
	if err != nil || results[0].Done || results[0].Refused {
		t.Errorf("%+v, %v", results, err)
	}
	if found, err := c.Find(t.Context(), keys[:1]); err != nil || found[0].Error != wire.KeyDNE {
		t.Errorf("%+v, %v", found, err)
	}
	if sent := f.sent(); sent != 1 {
		t.Errorf("%d tuples were sent, want that with a key", sent)
	}
}
