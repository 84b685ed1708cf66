package client

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/go-zeromq/zmq4"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// quick is a server that takes as little time as it can: every key has the same value.
func quick(b *testing.B, size int) string {
	b.Helper()
	payload := wire.AppendLWW(nil, wire.LWW{Timestamp: 1 << 50, Value: make([]byte, size)})
	l, err := zmtp.Listen("127.0.0.1:0", zmtp.Pull, func(in *zmtp.Conn) {
		var out *zmtp.Conn
		var response []byte
		for {
			frames, err := in.Recv()
			if err != nil {
				return
			}
			request, err := wire.ParseKeyRequest(frames[0])
			if err != nil {
				return
			}
			if out == nil {
				if out, err = zmtp.Dial(context.Background(), request.ResponseAddress[len("tcp://"):], zmtp.Push); err != nil {
					return
				}
				defer out.Close()
			}
			for i := range request.Tuples {
				request.Tuples[i].Lattice, request.Tuples[i].Payload = wire.TypeLWW, payload
			}
			answer := wire.KeyResponse{Kind: request.Kind, Tuples: request.Tuples, ID: request.ID}
			response = answer.Append(response[:0])
			if out.Send(response) != nil {
				return
			}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return "tcp://127.0.0.1:" + strconv.Itoa(l.Port())
}

const window = 8

// BenchmarkGet is a window of 8 batches of 100 keys through the client; BenchmarkBare
// the same with go-zeromq's sockets, where the answers are dropped. A thousand keys
// are one operation.
func BenchmarkGet(b *testing.B) {
	for _, size := range []int{100, 10000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			at := quick(b, size)
			c, err := New(context.Background(), Options{Listen: "127.0.0.1:0", Advertise: "127.0.0.1"})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			keys := keysOf(100)
			b.ReportAllocs()
			var flights []*Gets
			n := 0
			for b.Loop() {
				for range 10 {
					g, err := c.GetAsync(context.Background(), at, keys)
					if err != nil {
						b.Fatal(err)
					}
					if flights = append(flights, g); len(flights) < window {
						continue
					}
					tuples, err := flights[0].Wait(context.Background())
					if err != nil || len(tuples[99].Payload) < size {
						b.Fatal(err)
					}
					n += len(tuples)
					flights = append(flights[:0], flights[1:]...) // and keeps nothing
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "keys/s")
		})
	}
}

func BenchmarkBare(b *testing.B) {
	for _, size := range []int{100, 10000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			at := quick(b, size)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			pull, push := zmq4.NewPull(ctx, quiet()), zmq4.NewPush(ctx, quiet())
			defer pull.Close()
			defer push.Close()
			if err := pull.Listen("tcp://127.0.0.1:0"); err != nil {
				b.Fatal(err)
			}
			if err := push.Dial(at); err != nil {
				b.Fatal(err)
			}
			request := wire.KeyRequest{Kind: wire.Get, ResponseAddress: "tcp://" + pull.Addr().String(), ID: "i"}
			for _, key := range keysOf(100) {
				request.Tuples = append(request.Tuples, wire.Tuple{Key: key})
			}
			b.ReportAllocs()
			flying, n := 0, 0
			for b.Loop() {
				for range 10 {
					if err := push.Send(zmq4.NewMsg(request.Append(nil))); err != nil {
						b.Fatal(err)
					}
					if flying++; flying < window {
						continue
					}
					if _, err := pull.Recv(); err != nil {
						b.Fatal(err)
					}
					n += 100
					flying--
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "keys/s")
		})
	}
}

func BenchmarkPut(b *testing.B) {
	at := quick(b, 0)
	c, err := New(context.Background(), Options{Listen: "127.0.0.1:0", Advertise: "127.0.0.1"})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	tuples := lwwTuples(50)
	b.ReportAllocs()
	var flights []*Puts
	n := 0
	for b.Loop() {
		p, err := c.PutAsync(context.Background(), at, tuples)
		if err != nil {
			b.Fatal(err)
		}
		if flights = append(flights, p); len(flights) < window {
			continue
		}
		results, err := flights[0].Wait(context.Background())
		if err != nil || !results[49].Done {
			b.Fatal(results[49], err)
		}
		n += len(results)
		flights = append(flights[:0], flights[1:]...) // and keeps nothing
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "keys/s")
}
