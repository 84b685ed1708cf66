package pack

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/golden"
)

func write(t testing.TB, records []Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, r := range records {
		if err := w.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Records() != int64(len(records)) {
		t.Fatalf("%d records, want %d", w.Records(), len(records))
	}
	return b.Bytes()
}

func read(content []byte, used Bitmap) ([]Record, error) {
	var records []Record
	err := Read(context.Background(), bytes.NewReader(content), used, func(r Record) error {
		records = append(records, Record{strings.Clone(r.Key), r.Lattice, bytes.Clone(r.Payload)})
		return nil
	})
	return records, err
}

func same(a, b []Record) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || a[i].Lattice != b[i].Lattice || !bytes.Equal(a[i].Payload, b[i].Payload) {
			return false
		}
	}
	return true
}

// sample has records of all kinds and sizes, which fill frames exactly too.
func sample(seed uint64, largest int) []Record {
	random := rand.New(rand.NewPCG(seed, 1))
	var records []Record
	for i := range 40 {
		size := random.IntN(200)
		if i%9 == 4 {
			size = random.IntN(largest)
		}
		payload := make([]byte, size)
		for j := range payload {
			payload[j] = byte(random.IntN(4) * random.IntN(64))
		}
		records = append(records, Record{fmt.Sprintf("key/%d/\x00\xff", i), wire.Lattice(i % 7), payload})
	}
	return append(records, Record{}, Record{Key: strings.Repeat("k", 3000)})
}

func TestRoundTrip(t *testing.T) {
	cases := map[string][]Record{"nothing": nil, "empty": {{}}, "small": sample(1, 300), "large": sample(2, 3*FrameSize)}
	for _, size := range []int{FrameSize - 40, FrameSize - 31, FrameSize - 30, FrameSize - 29, FrameSize - 4, FrameSize, FrameSize + 1, 2 * FrameSize, 5*FrameSize + 3} {
		cases[fmt.Sprint("size ", size)] = []Record{{"a", 1, []byte("x")}, {"b", 1, make([]byte, size)}, {"c", 1, nil}, {"d", 2, make([]byte, size)}}
	}
	cases["long key"] = []Record{{strings.Repeat("k", 2*FrameSize), 1, []byte("x")}, {"c", 1, nil}}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := read(write(t, want), nil)
			if err != nil || !same(got, want) {
				t.Fatalf("%d records, want %d; %v", len(got), len(want), err)
			}
		})
	}
}

func TestUsed(t *testing.T) {
	all := sample(3, 2*FrameSize)
	used := NewBitmap(int64(len(all)))
	var want []Record
	for i, r := range all {
		if i%3 == 1 {
			used.Set(int64(i))
			want = append(want, r)
		}
	}
	got, err := read(write(t, all), used)
	if err != nil || !same(got, want) {
		t.Fatalf("%d records, want %d; %v", len(got), len(want), err)
	}
	if used.Count(int64(len(all))) != int64(len(want)) || Bitmap(nil).Count(7) != 7 {
		t.Error("the used ones are not counted right")
	}
	if got, err := read(write(t, all), NewBitmap(int64(len(all)))); err != nil || len(got) > 0 {
		t.Errorf("of a bitmap with none: %d, %v", len(got), err)
	}
}

// No bit of a pack can be another without being found, wherever it stands.
func TestFlippedBits(t *testing.T) {
	content := write(t, sample(4, 300)[:12])
	for i := range content {
		for bit := range 8 {
			broken := bytes.Clone(content)
			broken[i] ^= 1 << bit
			if _, err := read(broken, nil); !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d of %d, bit %d: %v", i, len(content), bit, err)
			}
		}
	}
}

func TestTruncated(t *testing.T) {
	content := write(t, sample(5, 300))
	for n := range content {
		var damage *Damage
		if _, err := read(content[:n], nil); !errors.As(err, &damage) {
			t.Fatalf("%d of %d bytes: %v", n, len(content), err)
		}
	}
	if _, err := read(append(bytes.Clone(content), 0), nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a byte more: %v", err)
	}
}

// Whole frames that are lost, doubled or have changed places are found too.
func TestFramesMoved(t *testing.T) {
	big := make([]byte, FrameSize-100)
	content := write(t, []Record{{"a", 1, big}, {"b", 1, big}, {"c", 1, big}})
	var frames [][]byte
	for rest := content[len(magic):]; len(rest) > 0; {
		n := headSize + int(rest[0]) + int(rest[1])<<8 + int(rest[2])<<16
		frames, rest = append(frames, rest[:n]), rest[n:]
	}
	if len(frames) != 4 {
		t.Fatalf("%d frames", len(frames))
	}
	for _, order := range [][]int{{1, 0, 2, 3}, {0, 2, 3}, {0, 1, 3}, {0, 0, 1, 2, 3}, {3}, {0, 1, 2, 3, 3}} {
		broken := []byte(magic)
		for _, i := range order {
			broken = append(broken, frames[i]...)
		}
		if _, err := read(broken, nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("%v: %v", order, err)
		}
	}
}

func TestErrorsOfOthers(t *testing.T) {
	content := write(t, sample(6, 300))
	mine := errors.New("mine")
	if err := Read(t.Context(), bytes.NewReader(content), nil, func(Record) error { return mine }); err != mine {
		t.Errorf("of yield: %v", err)
	}
	err := Read(t.Context(), io.MultiReader(bytes.NewReader(content[:40]), iotest.ErrReader(mine)), nil, func(Record) error { return nil })
	if !errors.Is(err, mine) || errors.Is(err, ErrDamaged) {
		t.Errorf("of the reader: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Read(ctx, bytes.NewReader(content), nil, func(Record) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	w := NewWriter(failing{mine})
	if err := w.Add(Record{"k", 1, make([]byte, 2*FrameSize)}); !errors.Is(err, mine) {
		t.Errorf("of the writer: %v", err)
	}
	if err := w.Close(); !errors.Is(err, mine) {
		t.Errorf("of the writer, at the end: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// The format is what older programs have written.
func TestFormat(t *testing.T) {
	content := write(t, []Record{{"k", wire.TypeLWW, []byte("\x08\x01\x12\x01v")}, {"", wire.TypeSet, nil}})
	golden.Compare(t, "testdata/pack.hex", []byte(hex.Dump(content)))
}

// FuzzRead reads what anybody may have put into the bucket.
func FuzzRead(f *testing.F) {
	f.Add([]byte{})
	f.Add(write(f, nil))
	f.Add(write(f, sample(7, 300)))
	f.Fuzz(func(t *testing.T, content []byte) {
		if _, err := read(content, nil); err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("%v", err)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	w := NewWriter(io.Discard)
	payload := make([]byte, 100)
	for i := range payload {
		payload[i] = byte(rand.IntN(256))
	}
	key := "anna-key-000000000017"
	b.SetBytes(int64(len(payload) + len(key)))
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Add(Record{key, 1, payload}); err != nil {
			b.Fatal(err)
		}
	}
}
