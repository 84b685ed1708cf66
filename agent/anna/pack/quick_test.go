package pack

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// writeBoth writes with one way of compressing and the other, frame by frame: what the
// time decides otherwise.
func writeBoth(t *testing.T, records []Record) (content []byte, ways map[uint32]int) {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for i, r := range records {
		w.since, w.zipping = time.Now(), time.Duration(i%2)*time.Hour
		if err := w.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ways = map[uint32]int{}
	for rest := b.Bytes()[len(magic):]; len(rest) > 0; {
		ways[uint32(rest[3])<<24&quick]++
		rest = rest[headSize+int(rest[0])+int(rest[1])<<8+int(rest[2])<<16:]
	}
	return b.Bytes(), ways
}

func TestBothWays(t *testing.T) {
	var records []Record
	for i := range 6 {
		records = append(records, Record{string(rune('a' + i)), 1, bytes.Repeat([]byte{byte(i), 1, 2}, FrameSize/3-20)})
	}
	records = append(records, sample(6, 3*FrameSize)...)
	content, ways := writeBoth(t, records)
	if ways[0] < 3 || ways[quick] < 3 {
		t.Fatalf("frames by their way: %v", ways)
	}
	got, err := read(content, nil)
	if err != nil || !same(got, records) {
		t.Fatalf("%d records, want %d; %v", len(got), len(records), err)
	}
}

// A flipped bit is found in a quick frame as well, before it is decompressed.
func TestFlippedBitsOfQuick(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	w.zipping = time.Hour
	for _, r := range sample(4, 300)[:12] {
		if err := w.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if b.Bytes()[len(magic)+3]&0x80 == 0 {
		t.Fatal("the frame is none")
	}
	for i := range b.Len() {
		for bit := range 8 {
			broken := bytes.Clone(b.Bytes())
			broken[i] ^= 1 << bit
			if _, err := read(broken, nil); !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d, bit %d: %v", i, bit, err)
			}
		}
	}
}

// What fits no S2 block, though its checksum is right, is damage and no panic.
func TestQuickDecompress(t *testing.T) {
	for _, stored := range []string{"", "\x05", "\xff\xff\xff\xff\x0f", "\x04\x0cabc", "\x03\x08abcd", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		p := &reader{stored: []byte(stored)}
		if err := p.decompress(quick, 4); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: %v", stored, err)
		}
		p.close()
	}
}
