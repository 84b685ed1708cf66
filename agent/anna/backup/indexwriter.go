package backup

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/stategraft/stategraft/agent/anna/manifest"
)

// indexWriter collects the entries of an index in sorted runs: a few in memory, more in
// a scratch file. After an error it collects no more, and there is no index.
type indexWriter struct {
	scratch string
	buffer  []entry
	sorted  []entry // room to sort into
	runs    [][]entry
	file    *os.File
	spilled []int64 // how many entries each run in the file has
	count   uint64
	err     error
}

// add takes an entry; its pack is a number that places turns into the place.
func (w *indexWriter) add(e entry) {
	if w == nil || w.err != nil {
		return
	}
	if w.buffer == nil {
		w.buffer = make([]entry, 0, runEntries)
	}
	w.buffer = append(w.buffer, e)
	w.count++
	if len(w.buffer) == runEntries {
		w.err = w.endRun()
	}
}

func order(a, b entry) int {
	return cmp.Or(cmp.Compare(a.high, b.high), cmp.Compare(a.low, b.low))
}

// sort sorts the buffer: first into buckets by the first 16 bits of the digests, which
// are spread evenly.
func (w *indexWriter) sort() {
	const shift = 64 - 16
	if cap(w.sorted) < len(w.buffer) {
		w.sorted = make([]entry, len(w.buffer), max(len(w.buffer), runEntries))
	}
	w.sorted = w.sorted[:len(w.buffer)]
	ends := make([]uint32, 1<<16+1)
	for i := range w.buffer {
		ends[w.buffer[i].high>>shift+1]++
	}
	for i := range 1 << 16 {
		ends[i+1] += ends[i]
	}
	for _, e := range w.buffer {
		at := &ends[e.high>>shift] // the bucket's begin becomes its end
		w.sorted[*at] = e
		*at++
	}
	begin := uint32(0)
	for _, end := range ends[:1<<16] {
		if end-begin > 1 {
			slices.SortFunc(w.sorted[begin:end], order)
		}
		begin = end
	}
	w.buffer, w.sorted = w.sorted, w.buffer[:0]
}

func (w *indexWriter) endRun() error {
	w.sort()
	if len(w.runs) < runsInMemory {
		w.runs = append(w.runs, w.buffer)
		w.buffer = nil
		return nil
	}
	if w.file == nil {
		var err error
		if w.file, err = scratchFile(w.scratch); err != nil {
			return err
		}
	}
	to := bufio.NewWriterSize(w.file, 1<<16)
	var b [entrySize]byte
	for _, e := range w.buffer {
		if _, err := to.Write(e.append(b[:0])); err != nil {
			return fmt.Errorf("write a scratch file: %w", err)
		}
	}
	w.spilled = append(w.spilled, int64(len(w.buffer)))
	w.buffer = w.buffer[:0]
	if err := to.Flush(); err != nil {
		return fmt.Errorf("write a scratch file: %w", err)
	}
	return nil
}

func (w *indexWriter) close() {
	if w != nil && w.file != nil {
		w.file.Close()
		w.file = nil
	}
}

// write writes the index of a manifest.
func (w *indexWriter) write(to io.Writer, of manifest.Manifest, places []int) error {
	if w.err != nil {
		return w.err
	}
	checksum, err := hex.DecodeString(of.Checksum)
	if err != nil || len(checksum) != sha256.Size {
		return fmt.Errorf("write an index: the manifest has no checksum")
	}
	if len(w.buffer) > 0 {
		w.sort()
		w.runs = append(w.runs, w.buffer)
		w.buffer = nil
	}
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(to, sum), 1<<16)
	head := append([]byte(indexMagic), checksum...)
	if _, err := out.Write(binary.BigEndian.AppendUint64(head, w.count)); err != nil {
		return err
	}
	var b [entrySize]byte
	if err := w.merge(func(e entry) error {
		e.pack = uint32(places[e.pack])
		_, err := out.Write(e.append(b[:0]))
		return err
	}); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err = to.Write(sum.Sum(nil))
	return err
}

// run gives the entries of one in their order.
type run struct {
	entries []entry
	from    io.Reader // after those; nil: nothing
	first   entry
}

func (r *run) next() (bool, error) {
	if len(r.entries) > 0 {
		r.first, r.entries = r.entries[0], r.entries[1:]
		return true, nil
	}
	if r.from == nil {
		return false, nil
	}
	var b [entrySize]byte
	_, err := io.ReadFull(r.from, b[:])
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	r.first = parseEntry(b[:])
	return err == nil, err
}

// merge gives the entries of all runs in order. There are few runs, so the smallest is
// looked for.
func (w *indexWriter) merge(yield func(entry) error) error {
	var runs []*run
	for _, entries := range w.runs {
		runs = append(runs, &run{entries: entries})
	}
	var at int64
	for _, n := range w.spilled {
		runs = append(runs, &run{from: bufio.NewReaderSize(io.NewSectionReader(w.file, at*entrySize, n*entrySize), 1<<14)})
		at += n
	}
	more := func(i int) error {
		is, err := runs[i].next()
		if err == nil && !is {
			runs = slices.Delete(runs, i, i+1)
		}
		return err
	}
	for i := len(runs) - 1; i >= 0; i-- {
		if err := more(i); err != nil {
			return err
		}
	}
	for len(runs) > 0 {
		least := 0
		for i := range runs[1:] {
			if order(runs[i+1].first, runs[least].first) < 0 {
				least = i + 1
			}
		}
		if err := yield(runs[least].first); err != nil {
			return err
		}
		if err := more(least); err != nil {
			return err
		}
	}
	return nil
}
