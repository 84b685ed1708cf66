package zmtp

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"

	"github.com/stategraft/stategraft/test/ports"
)

func TestPushPull(t *testing.T) {
	got := make(chan string, 10)
	l, err := Pull("tcp://127.0.0.1:0", func(_ context.Context, m []byte) { got <- string(m) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	endpoint := "tcp://" + l.Addr().String()
	p := NewPush(endpoint)
	defer p.Close()
	long := strings.Repeat("x", 1<<20)
	for _, m := range []string{"", "short", long} {
		if err := p.Send(t.Context(), []byte(m)); err != nil {
			t.Fatal(err)
		}
		if g := <-got; g != m {
			t.Fatalf("got %d bytes, want %d", len(g), len(m))
		}
	}

	q := zmq4.NewPush(t.Context())
	defer func() { _ = q.Close() }()
	if err := q.Dial(endpoint); err != nil {
		t.Fatal(err)
	}
	if err := q.Send(zmq4.NewMsgString(long)); err != nil {
		t.Fatal(err)
	}
	if g := <-got; g != long {
		t.Fatalf("got %d bytes from the other implementation", len(g))
	}
}

func TestPushToTheOtherImplementation(t *testing.T) {
	pull := zmq4.NewPull(t.Context())
	defer func() { _ = pull.Close() }()
	if err := pull.Listen("tcp://127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	p := NewPush("tcp://" + pull.Addr().String())
	defer p.Close()
	for i := range 100 {
		if err := p.Send(t.Context(), fmt.Appendf(nil, "message %d", i)); err != nil {
			t.Fatal(err)
		}
		m, err := pull.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("message %d", i); string(m.Bytes()) != want {
			t.Fatalf("got %q, want %q", m.Bytes(), want)
		}
	}
}

func TestAskReply(t *testing.T) {
	l, err := Reply("tcp://127.0.0.1:0", func(_ context.Context, m []byte) []byte { return append([]byte("re: "), m...) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	endpoint := "tcp://" + l.Addr().String()
	a, err := Ask(t.Context(), endpoint, []byte("join"))
	if err != nil || string(a) != "re: join" {
		t.Fatal(string(a), err)
	}
	q := zmq4.NewReq(t.Context())
	defer func() { _ = q.Close() }()
	if err := q.Dial(endpoint); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := q.Send(zmq4.NewMsgString("join")); err != nil {
			t.Fatal(err)
		}
		m, err := q.Recv()
		if err != nil || string(m.Bytes()) != "re: join" {
			t.Fatal(m, err)
		}
	}
}

// A PUSH socket keeps 1000 messages for a peer that is not there, then blocks, and
// goes on when the peer comes.
func TestPushBlocksAtTheHighWaterMark(t *testing.T) {
	port, err := ports.Row(1)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := fmt.Sprintf("tcp://127.0.0.1:%d", port)
	p := NewPush(endpoint)
	defer p.Close()
	for range HighWater {
		if err := p.Send(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Send(short, []byte("x")); err == nil {
		t.Fatal("the 1001st message did not block")
	}
	got := make(chan struct{}, 2*HighWater)
	l, err := Pull(endpoint, func(context.Context, []byte) { got <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range HighWater {
		<-got
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}
