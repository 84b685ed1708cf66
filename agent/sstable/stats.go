package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// The versions whose statistics are understood: those of Cassandra 3.0 to 5.0. Of what
// is older the rows are not known: they were cells (org.apache.cassandra.io.sstable.format,
// big/BigFormat.java and bti/BtiFormat.java, which read all of these by one code).
var versions = []string{"ma", "mb", "mc", "md", "me", "na", "nb", "oa", "da"}

// What the versions differ in, of the Version of those formats.
func checksummed(version string) bool { return version[0] != 'm' }                    // hasMetadataChecksum
func improved(version string) bool    { return version[0] == 'o' || version == "da" } // hasImprovedMinMax, not hasLegacyMinMax, hasUIntDeletionTime

// statsComponent is MetadataType.STATS.
const statsComponent = 2

// mostOfStats is how large the component may be, in bytes: two histograms of at most 240
// buckets, one of 100, and the largest and smallest clustering.
const mostOfStats = 4 << 20

// mostRows is more than any SSTable has: of a number beyond, something else was read.
const mostRows = 1 << 50

// errVersion says that the rows of an SSTable of that version are not known.
var errVersion = errors.New("a version that is not understood")

// rows reads how many rows an SSTable has from its Statistics.db (MetadataSerializer.java).
func rows(file io.ReaderAt, size int64, version string) (int64, error) {
	if !slices.Contains(versions, version) {
		return 0, fmt.Errorf("%w: %q", errVersion, version)
	}
	from, to, err := component(file, size, version)
	if err != nil {
		return 0, err
	}
	if to-from > mostOfStats {
		return 0, fmt.Errorf("the statistics have %d bytes", to-from)
	}
	content := make([]byte, to-from)
	if _, err := file.ReadAt(content, from); err != nil {
		return 0, fmt.Errorf("read the statistics: %w", err)
	}
	if checksummed(version) {
		if len(content) < 4 {
			return 0, io.ErrUnexpectedEOF
		}
		sum := binary.BigEndian.Uint32(content[len(content)-4:])
		if content = content[:len(content)-4]; crc32.ChecksumIEEE(content) != sum {
			return 0, errors.New("the checksum of the statistics is wrong")
		}
	}
	r := &reader{left: content}
	total := r.totalRows(version)
	if r.err != nil {
		return 0, fmt.Errorf("read the statistics: %w", r.err)
	}
	if total < 0 || total > mostRows {
		return 0, fmt.Errorf("the statistics tell of %d rows", total)
	}
	return total, nil
}

// mostComponents is more than there are: four.
const mostComponents = 16

// component finds the statistics in the file. Its table of contents is the number of
// components and, of each, type and offset.
func component(file io.ReaderAt, size int64, version string) (from, to int64, err error) {
	head := make([]byte, 4+4+8*mostComponents)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, fmt.Errorf("read the table of contents: %w", err)
	}
	r := &reader{left: head[:n]}
	count := r.int32()
	if checksummed(version) {
		r.skip(4) // of the number
	}
	if count < 1 || count > mostComponents {
		return 0, 0, fmt.Errorf("it has %d components", count)
	}
	from, to = -1, size
	offsets := make([]int64, 0, count)
	for range count {
		kind, offset := r.int32(), int64(r.int32())
		offsets = append(offsets, offset)
		if kind == statsComponent {
			from = offset
		}
	}
	for _, offset := range offsets {
		if offset > from && offset < to {
			to = offset
		}
	}
	if r.err != nil || from < 0 || from >= to {
		return 0, 0, errors.New("it has no statistics")
	}
	return from, to, nil
}

// totalRows reads up to the number of rows (StatsMetadata.java, StatsMetadataSerializer,
// deserialize).
func (r *reader) totalRows(version string) int64 {
	for range 2 { // partition sizes, cells per partition (EstimatedHistogram.java)
		r.skip(16 * int64(r.int32()))
	}
	r.skip(8 + 4)         // commit log position
	r.skip(8 + 8)         // timestamps
	r.skip(4 + 4 + 4 + 4) // deletion times, times to live
	r.skip(8)             // compression ratio
	r.skip(4)             // most bins of the tombstones' times (streamhist/TombstoneHistogram.java)
	if improved(version) {
		r.skip((8 + 4) * int64(r.int32()))
	} else {
		r.skip((8 + 8) * int64(r.int32()))
	}
	r.skip(4 + 8) // level, repaired at
	if improved(version) {
		r.slice()
	} else {
		for range 2 { // smallest and largest clustering
			for range r.count() {
				r.skip(int64(r.uint16()))
			}
		}
	}
	r.skip(1) // counter shards
	r.skip(8) // cells
	return int64(r.uint64())
}

// slice skips the clusterings that the SSTable covers: their types
// (AbstractTypeSerializer.java), and two bounds of them (Slice.java).
func (r *reader) slice() {
	var lengths []int64
	for range r.vcount() {
		lengths = append(lengths, fixed(string(r.take(r.vint()))))
	}
	for range 2 { // ClusteringBoundOrBoundary.java
		r.skip(1) // kind
		r.values(lengths, int(r.uint16()))
	}
}

// perHeader is how many values one header tells of.
const perHeader = 32

// values skips those of a clustering (ClusteringPrefix.java, deserializeValuesWithoutSize).
func (r *reader) values(lengths []int64, count int) {
	var header uint64
	for i := 0; i < count && r.err == nil; i++ {
		if i%perHeader == 0 {
			header = uint64(r.vint())
		}
		if bits := header >> (2 * (i % perHeader)); bits&3 != 0 {
			continue // null or empty
		}
		switch {
		case i >= len(lengths):
			r.err = errors.New("a clustering has more values than types")
		case lengths[i] >= 0:
			r.skip(lengths[i])
		default:
			r.skip(r.vint())
		}
	}
}

// reader reads what Cassandra has written, of which all is big-endian. After an error
// it gives zeros.
type reader struct {
	left []byte
	err  error
}

func (r *reader) take(n int64) []byte {
	if r.err == nil && (n < 0 || n > int64(len(r.left))) {
		r.err = io.ErrUnexpectedEOF
	}
	if r.err != nil {
		return nil
	}
	taken := r.left[:n]
	r.left = r.left[n:]
	return taken
}

func (r *reader) skip(n int64) { r.take(n) }

func (r *reader) padded(n int64) []byte {
	if taken := r.take(n); taken != nil {
		return taken
	}
	return bytes.Repeat([]byte{0}, int(n))
}

func (r *reader) uint16() uint16 { return binary.BigEndian.Uint16(r.padded(2)) }
func (r *reader) int32() int32   { return int32(binary.BigEndian.Uint32(r.padded(4))) }
func (r *reader) uint64() uint64 { return binary.BigEndian.Uint64(r.padded(8)) }

// count is a number of things that take a byte at least.
func (r *reader) count() int32 {
	n := r.int32()
	if n < 0 || int64(n) > int64(len(r.left)) {
		r.take(-1)
		return 0
	}
	return n
}

func (r *reader) vcount() int64 {
	n := r.vint()
	if n < 0 || n > int64(len(r.left)) {
		r.take(-1)
		return 0
	}
	return n
}

// vint is an unsigned number of one to nine bytes: the first one's leading ones tell
// how many follow (VIntCoding.java).
func (r *reader) vint() int64 {
	first := r.padded(1)[0]
	more := 0
	for more < 8 && first&(0x80>>more) != 0 {
		more++
	}
	value := uint64(0)
	if more < 8 {
		value = uint64(first & (0xff >> more))
	}
	for range more {
		value = value<<8 | uint64(r.padded(1)[0])
	}
	return int64(value)
}
