package pack

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// ErrDamaged says that a pack is not what was written: errors.Is finds it.
var ErrDamaged = errors.New("the pack is damaged")

// Damage is where and what: an ErrDamaged.
type Damage struct {
	Frame uint64 // counted from 0
	Why   string
}

func (d *Damage) Error() string {
	return fmt.Sprintf("the pack is damaged in frame %d: %s", d.Frame, d.Why)
}

// Is makes every Damage an ErrDamaged.
func (d *Damage) Is(target error) bool { return target == ErrDamaged }

// longestRecord is what a reader takes into memory: protobuf, and so Anna, has no
// larger message.
const longestRecord = 1 << 31

// reader reads a pack's frames.
type reader struct {
	from   io.Reader
	unzip  *zstd.Decoder
	stored []byte
	plain  []byte
	long   []byte // what was read of a record that goes on
	frame  uint64
	next   int64 // number of the next record
}

// Read gives yield the used records of a pack, in the order they were written. Key and
// Payload are only good until yield returns: what is kept has to be copied
// (strings.Clone, bytes.Clone). An error of yield ends it and is returned as it is; one
// of r is wrapped; whatever is wrong with the content is a Damage, an end that came too
// early included.
func Read(ctx context.Context, r io.Reader, used Bitmap, yield func(Record) error) error {
	p := &reader{from: bufio.NewReaderSize(r, 1<<14)}
	defer p.close()
	var begin [len(magic)]byte
	if err := p.fill(begin[:], "its beginning"); err != nil {
		return err
	}
	switch {
	case string(begin[:len(magic)-1]) != magic[:len(magic)-1]:
		return p.damage("it does not begin as a pack does")
	case begin[len(magic)-1] != magic[len(magic)-1]:
		return p.damage("it has version %d, and this program reads %d", begin[len(magic)-1], magic[len(magic)-1])
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if done, err := p.readFrame(used, yield); done || err != nil {
			return err
		}
		p.frame++
	}
}

func (p *reader) damage(format string, args ...any) error {
	return &Damage{p.frame, fmt.Sprintf(format, args...)}
}

func (p *reader) close() {
	if p.unzip != nil {
		p.unzip.Close()
	}
}

// decompress fills plain with a frame's body.
func (p *reader) decompress(how, size uint32) error {
	if p.unzip == nil {
		var err error
		p.unzip, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(2*FrameSize))
		if err != nil {
			return fmt.Errorf("read a pack: %w", err)
		}
		p.plain = make([]byte, 0, FrameSize)
	}
	if size > FrameSize {
		return p.damage("a frame of %d bytes is none that is written", size)
	}
	var err error
	if how == quick {
		if n, err := s2.DecodedLen(p.stored); err != nil || n != int(size) {
			return p.damage("it cannot be decompressed")
		}
		if p.plain, err = s2.Decode(p.plain[:size], p.stored); err != nil || len(p.plain) != int(size) {
			p.plain = p.plain[:0]
			return p.damage("it cannot be decompressed")
		}
		return nil
	}
	if p.plain, err = p.unzip.DecodeAll(p.stored, p.plain[:0:FrameSize]); err != nil || len(p.plain) != int(size) {
		return p.damage("it cannot be decompressed")
	}
	return nil
}

// fill reads that many bytes.
func (p *reader) fill(to []byte, what string) error {
	_, err := io.ReadFull(p.from, to)
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return p.damage("it ends within %s", what)
	case err != nil:
		return fmt.Errorf("read a pack, frame %d: %w", p.frame, err)
	}
	return nil
}

// readFrame reads one frame and gives its records; done is true at the pack's end.
func (p *reader) readFrame(used Bitmap, yield func(Record) error) (done bool, err error) {
	var head [headSize]byte
	if err := p.fill(head[:], "the head of a frame"); err != nil {
		return false, err
	}
	size, plain := binary.LittleEndian.Uint32(head[0:]), binary.LittleEndian.Uint32(head[4:])
	how := size & quick
	size &^= quick
	count, sum := binary.LittleEndian.Uint32(head[8:]), binary.LittleEndian.Uint32(head[12:])
	if size > largestStored {
		return false, p.damage("a frame of %d bytes is none that is written", size)
	}
	if int(size) > cap(p.stored) {
		p.stored = make([]byte, size, largestStored)
	}
	p.stored = p.stored[:size]
	if err := p.fill(p.stored, "a frame"); err != nil {
		return false, err
	}
	if checksum(p.frame, head[:12], p.stored) != sum {
		return false, p.damage("its checksum is wrong")
	}
	if plain == endOfPack {
		return true, p.end()
	}
	if err := p.decompress(how, plain); err != nil {
		return false, err
	}
	if count == goesOn || len(p.long) > 0 {
		return false, p.longFrame(count, used, yield)
	}
	return false, p.records(p.plain, count, used, yield)
}

// longFrame takes a part of a record that is spread over several frames.
func (p *reader) longFrame(count uint32, used Bitmap, yield func(Record) error) error {
	if len(p.long)+len(p.plain) > longestRecord {
		return p.damage("a record is longer than any can be")
	}
	p.long = append(p.long, p.plain...)
	if count == goesOn {
		return nil
	}
	if count != 1 {
		return p.damage("a long record is not alone")
	}
	whole := p.long
	p.long = nil // it may be very large: it is not kept
	return p.records(whole, 1, used, yield)
}

// records gives those of a frame.
func (p *reader) records(from []byte, count uint32, used Bitmap, yield func(Record) error) error {
	for range count {
		key, rest, ok := cut(from)
		if !ok {
			return p.damage("a record ends too early")
		}
		lattice, n := binary.Uvarint(rest)
		if n <= 0 || lattice > 1<<16 {
			return p.damage("a record has no type")
		}
		payload, rest, ok := cut(rest[n:])
		if !ok {
			return p.damage("a record ends too early")
		}
		from = rest
		p.next++
		if !used.Has(p.next - 1) {
			continue
		}
		// The key's bytes are those of the frame: as Read says, good until yield returns.
		r := Record{Key: unsafe.String(unsafe.SliceData(key), len(key)), Lattice: wire.Lattice(lattice), Payload: payload}
		if err := yield(r); err != nil {
			return err
		}
	}
	if len(from) > 0 {
		return p.damage("there is more in it than its records")
	}
	return nil
}

// cut takes a length and that many bytes.
func cut(from []byte) (part, rest []byte, ok bool) {
	size, n := binary.Uvarint(from)
	if n <= 0 || size > uint64(len(from)-n) {
		return nil, nil, false
	}
	end := n + int(size)
	return from[n:end:end], from[end:], true
}

// end verifies the end: the number of records, and that nothing comes after.
func (p *reader) end() error {
	if len(p.stored) != 8 || len(p.long) > 0 {
		return p.damage("its end is none")
	}
	if want := binary.LittleEndian.Uint64(p.stored); want != uint64(p.next) {
		return p.damage("it has %d records, and says %d", p.next, want)
	}
	var more [1]byte
	switch n, err := io.ReadFull(p.from, more[:]); {
	case n > 0:
		return p.damage("there is more after its end")
	case err != io.EOF:
		return fmt.Errorf("read the end of a pack: %w", err)
	}
	return nil
}
