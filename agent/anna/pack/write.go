package pack

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// share is what part of the time goes into zstd, at most. What comes slower than that is
// zstd throughout: up to some 20 MB/s, Anna's rate with small values. The rest of what
// comes faster is compressed less, with S2, which is four times as fast; the thread that
// gives it away, most likely on the same cores, is not kept waiting. A storage that is
// slow to take it leaves time for zstd again.
const share = 0.1

// Writer writes a pack. It is of one goroutine.
type Writer struct {
	to      io.Writer
	zip     *zstd.Encoder
	plain   []byte // of the frame that is being filled
	stored  []byte
	inFrame uint32
	frame   uint64
	records int64
	size    int64
	begun   bool
	err     error
	since   time.Time     // when the first pack was begun
	zipping time.Duration // of it, in zstd
}

// NewWriter begins a pack. Nothing is written before the first frame is full.
func NewWriter(w io.Writer) *Writer {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(FrameSize))
	if err != nil {
		panic("zstd refuses its options: " + err.Error()) // they are constants
	}
	return &Writer{to: w, zip: zip, plain: make([]byte, 0, FrameSize), since: time.Now()}
}

// Reset begins another pack with the same buffers.
func (w *Writer) Reset(to io.Writer) {
	*w = Writer{to: to, zip: w.zip, plain: w.plain[:0], stored: w.stored, since: w.since, zipping: w.zipping}
}

// Add writes a record, which is copied. After an error the pack is lost.
func (w *Writer) Add(r Record) error {
	if w.err != nil {
		return w.err
	}
	room := len(r.Key) + len(r.Payload) + 3*binary.MaxVarintLen64
	if len(w.plain) > 0 && len(w.plain)+room > FrameSize {
		w.flush(false)
	}
	before := len(w.plain)
	head := binary.AppendUvarint(w.plain, uint64(len(r.Key)))
	if room <= FrameSize {
		head = append(head, r.Key...)
		head = binary.AppendUvarint(head, uint64(r.Lattice))
		head = binary.AppendUvarint(head, uint64(len(r.Payload)))
		w.plain = append(head, r.Payload...)
		w.size += int64(len(w.plain) - before)
	} else {
		w.plain = head
		w.size += int64(len(head) - before)
		w.long([]byte(r.Key))
		w.long(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(r.Lattice)), uint64(len(r.Payload))))
		w.long(r.Payload)
	}
	w.inFrame++
	w.records++
	if room > FrameSize {
		w.flush(false)
	}
	return w.err
}

// long spreads a part of a record that is larger than a frame over several.
func (w *Writer) long(part []byte) {
	w.size += int64(len(part))
	for len(part) > 0 && w.err == nil {
		if len(w.plain) == FrameSize {
			w.flush(true)
		}
		n := min(len(part), FrameSize-len(w.plain))
		w.plain = append(w.plain, part[:n]...)
		part = part[n:]
	}
}

// flush writes a frame; more says that its only record goes on in the next.
func (w *Writer) flush(more bool) {
	count := w.inFrame
	if more {
		count = goesOn
	}
	w.write(w.compress(), uint32(len(w.plain)), count)
	w.plain, w.inFrame = w.plain[:0], 0
}

// compress fills stored, behind room for a head, and tells how: with quick or 0.
func (w *Writer) compress() (how uint32) {
	now := time.Now()
	if float64(w.zipping) > share*float64(now.Sub(w.since)) {
		if room := headSize + s2.MaxEncodedLen(len(w.plain)); cap(w.stored) < room {
			w.stored = make([]byte, room)
		}
		body := s2.Encode(w.stored[headSize:cap(w.stored)], w.plain)
		w.stored = w.stored[:headSize+len(body)]
		return quick
	}
	w.stored = w.zip.EncodeAll(w.plain, append(w.stored[:0], make([]byte, headSize)...))
	w.zipping += time.Since(now)
	return 0
}

// write completes the head of what is in stored, and writes that.
func (w *Writer) write(how, plain, count uint32) {
	if w.err != nil {
		return
	}
	if !w.begun {
		w.begun = true
		if _, w.err = w.to.Write([]byte(magic)); w.err != nil {
			return
		}
	}
	binary.LittleEndian.PutUint32(w.stored[0:], uint32(len(w.stored)-headSize)|how)
	binary.LittleEndian.PutUint32(w.stored[4:], plain)
	binary.LittleEndian.PutUint32(w.stored[8:], count)
	binary.LittleEndian.PutUint32(w.stored[12:], checksum(w.frame, w.stored[:12], w.stored[headSize:]))
	_, w.err = w.to.Write(w.stored)
	w.frame++
}

// Records is how many were added.
func (w *Writer) Records() int64 { return w.records }

// Plain is their size in bytes, before compression.
func (w *Writer) Plain() int64 { return w.size }

// Close writes the end. It does not close what is written to.
func (w *Writer) Close() error {
	if len(w.plain) > 0 {
		w.flush(false)
	}
	w.stored = append(w.stored[:0], make([]byte, headSize)...)
	w.stored = binary.LittleEndian.AppendUint64(w.stored, uint64(w.records))
	w.write(0, endOfPack, 0)
	if w.err != nil {
		return fmt.Errorf("write the end of a pack: %w", w.err)
	}
	w.err = io.ErrClosedPipe
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is of a frame and its place, so that two that changed places are found too.
func checksum(frame uint64, head, stored []byte) uint32 {
	var place [8]byte
	binary.LittleEndian.PutUint64(place[:], frame)
	sum := crc32.Update(0, castagnoli, place[:])
	sum = crc32.Update(sum, castagnoli, head)
	return crc32.Update(sum, castagnoli, stored)
}
