package client_test

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// rates says how fast keys are read from a thread through the client and by a loop
// that counts the answers and drops them, in turns. It is a figure, not a test.
func rates(t *testing.T, c *client.Client, at string, keys []string) {
	t.Helper()
	answers := make(chan int, 1000)
	l, err := zmtp.Listen("127.0.0.1:0", zmtp.Pull, func(conn *zmtp.Conn) {
		for {
			frames, err := conn.Recv()
			if err != nil {
				return
			}
			n := 0
			if wire.ScanKeyResponse(frames[0], func(wire.RawTuple) { n++ }) != nil {
				n = 0
			}
			answers <- n
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	push, err := zmtp.Dial(context.Background(), at[len("tcp://"):], zmtp.Push)
	if err != nil {
		t.Fatal(err)
	}
	defer push.Close()
	bare := wire.KeyRequest{Kind: wire.Get, ResponseAddress: "tcp://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port())), ID: "bare"}
	for range 4 {
		start, flying := time.Now(), 0
		for i := 0; i < len(keys) || flying > 0; {
			for ; i < len(keys) && flying <= 700; i += 100 {
				bare.Tuples = bare.Tuples[:0]
				for _, key := range keys[i:min(i+100, len(keys))] {
					bare.Tuples = append(bare.Tuples, wire.Tuple{Key: key})
				}
				if err := push.Send(bare.Append(nil)); err != nil {
					t.Fatal(err)
				}
				flying += len(bare.Tuples)
			}
			flying -= <-answers
		}
		loop := time.Since(start)
		start = time.Now()
		if _, err := c.Get(t.Context(), at, keys); err != nil {
			t.Fatal(err)
		}
		ours := time.Since(start)
		t.Logf("%d keys: a bare loop %.0f/s, the client %.0f/s", len(keys), float64(len(keys))/loop.Seconds(), float64(len(keys))/ours.Seconds())
	}
}
