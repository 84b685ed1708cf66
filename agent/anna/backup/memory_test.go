package backup

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"gocloud.dev/blob/fileblob"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// large is a thread with many keys, one in every some of them of 100 kB, whose values are made when they
// are asked for. The size that it reports of every other large one says nothing.
type large struct {
	*anna
	keys, every int
	list        []byte
	stamp       atomic.Uint64
	gets        atomic.Int64
	most        atomic.Uint64
}

func newLarge(keys, every int) *large {
	l := &large{anna: newAnna(1), keys: keys, every: every}
	for i := range keys {
		size := uint32(100)
		if i%(2*every) == 0 {
			size = 100_000
		}
		l.list = wire.AppendKeySize(l.list, wire.KeySize{Key: fmt.Sprintf("anna-key-%08d", i), Size: size})
	}
	return l
}

func (l *large) Report(ctx context.Context, s wire.Server, tier wire.Tier, tid int) (client.Report, error) {
	return client.Report{Stamp: l.stamp.Add(1), Sizes: append([]byte(nil), l.list...), Never: tid > 0}, nil
}

func (l *large) Get(ctx context.Context, at string, keys []string) ([]wire.Tuple, error) {
	if l.gets.Add(1)%1000 == 0 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		l.most.Store(max(l.most.Load(), m.HeapAlloc))
	}
	tuples := make([]wire.Tuple, len(keys))
	frame := make([]byte, 0, 128*len(keys))
	for i, key := range keys {
		number := 0
		for _, c := range key[len(key)-8:] {
			number = 10*number + int(c-'0')
		}
		size := 100
		if number%l.every == 0 {
			size = 100_000
		}
		begin := len(frame)
		frame = wire.AppendLWW(frame, wire.LWW{Timestamp: uint64(number)})
		frame = append(frame, 0x12)
		frame = binary.AppendUvarint(frame, uint64(size))
		frame = append(frame, make([]byte, size)...)
		binary.LittleEndian.PutUint64(frame[len(frame)-8:], uint64(number)*0x9e3779b97f4a7c15)
		tuples[i] = wire.Tuple{Key: key, Lattice: wire.TypeLWW, Payload: frame[begin:len(frame):len(frame)]}
	}
	return tuples, nil
}

func largeRun(t testing.TB, l *large) {
	t.Helper()
	bucket, err := fileblob.OpenBucket(t.TempDir(), &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		t.Fatal(err)
	}
	defer bucket.Close()
	s, err := store.New(bucket, store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Run(t.Context(), Job{Name: "b", Node: "n", Self: self, Tier: wire.Memory, Period: time.Microsecond, Threads: 1, Scratch: t.TempDir()}, l, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.Keys != int64(l.keys) {
		t.Fatalf("%d keys", m.Keys)
	}
}

// What a backup holds in memory is a list and an index, and nothing that grows with the
// values.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	l := newLarge(300_000, 100)
	largeRun(t, l)
	// The values are 300 MB together. The collector lags on a busy machine.
	if most := l.most.Load(); most == 0 || most > 128<<20 {
		t.Errorf("%d MB of the heap were in use", most>>20)
	}
	t.Logf("%d MB of the heap were in use at most", l.most.Load()>>20)
}

// BenchmarkRun is what a backup takes beside the GETs: keys of 100 B that are made in no time.
func BenchmarkRun(b *testing.B) {
	const keys = 300_000
	l := newLarge(keys, 1<<30)
	b.ReportAllocs()
	for b.Loop() {
		largeRun(b, l)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*keys), "ns/key")
}

// BenchmarkGets is the part of BenchmarkRun that is the rig's own.
func BenchmarkGets(b *testing.B) {
	l := newLarge(100, 1<<30)
	var keys []string
	for k := range wire.KeySizes(l.list) {
		keys = append(keys, k.Key)
	}
	for b.Loop() {
		if _, err := l.Get(b.Context(), "", keys); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/key")
}
