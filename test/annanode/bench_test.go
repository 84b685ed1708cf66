package annanode

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode/zmtp"
)

// many yields n values of 100 B, each thousandth of 100 kB.
func many(n int) iter.Seq[wire.Tuple] {
	small, large := strings.Repeat("x", 90), strings.Repeat("y", 100_000)
	return func(yield func(wire.Tuple) bool) {
		for i := range n {
			value := small
			if i%1000 == 0 {
				value = large
			}
			if !yield(wire.Tuple{Key: fmt.Sprintf("bench-key-%08d", i), Lattice: wire.TypeLWW, Payload: lww(uint64(i), value)}) {
				return
			}
		}
	}
}

// BenchmarkNode is what one thread answers: new keys, known keys, reads, in batches
// of 100 with 8 outstanding.
func BenchmarkNode(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	c, err := StartCluster(ctx, ClusterConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	hosts, err := FreeHosts(1)
	if err != nil {
		b.Fatal(err)
	}
	var answered atomic.Int64
	window := make(chan struct{}, 800)
	l, err := zmtp.Pull(address(hosts[0], talkKeys, 0), func(_ context.Context, m []byte) {
		_ = wire.ScanKeyResponse(m, func(wire.RawTuple) {
			answered.Add(1)
			<-window
		})
	})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	p := zmtp.NewPush(address(c.Nodes[0].Server().Public, wire.PortRequest, 0))
	defer p.Close()
	send := func(b *testing.B, kind wire.Kind) {
		answered.Store(0)
		for part := range batches(many(b.N), 100) {
			r := wire.KeyRequest{Kind: kind, Tuples: part, ResponseAddress: address(hosts[0], talkKeys, 0), ID: "x"}
			for range part {
				window <- struct{}{}
			}
			if err := p.Send(b.Context(), r.Append(make([]byte, 0, r.Size()))); err != nil {
				b.Fatal(err)
			}
		}
		for answered.Load() < int64(b.N) {
			runtime.Gosched()
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "keys/s")
	}
	b.Run("put new", func(b *testing.B) { send(b, wire.Put) })
	b.Run("put known", func(b *testing.B) { send(b, wire.Put) })
	b.Run("get", func(b *testing.B) { send(b, wire.Get) })
}

// BenchmarkLoad is the memory that keys need in a node.
func BenchmarkLoad(b *testing.B) {
	c, err := StartCluster(b.Context(), ClusterConfig{Memory: 3, Threads: Threads{Memory: 2}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	if n := c.Load(many(b.N)); n != b.N {
		b.Fatalf("%d of %d keys are loaded", n, b.N)
	}
	b.StopTimer()
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "B/key")
}
