package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"syscall"

	"github.com/stategraft/stategraft/agent/anna/manifest"
)

// An index tells where each record of a backup is, by the first half of its digest: 24
// bytes a record, sorted, between a head (magic, checksum of the manifest it belongs to,
// number of records) and the sha256 of all before it.
const (
	indexMagic = "SGAIDX\x00\x01"
	indexHead  = len(indexMagic) + sha256.Size + 8
	entrySize  = 24
)

// What is held in memory; tests hold less.
var (
	inMemory     int64 = 64 << 20 // the size up to which an index is; a larger one is a mapped file
	runEntries         = 1 << 18  // of a sorted run of an index that is made: 6 MB
	runsInMemory       = 8
)

// digest is the first half of a record's.
type digest struct{ high, low uint64 }

func short(b []byte) digest {
	return digest{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

func (d digest) less(other digest) bool {
	return d.high < other.high || d.high == other.high && d.low < other.low
}

// entry is a record's place.
type entry struct {
	digest
	pack   uint32 // its place among the manifest's packs
	record uint32
}

func (e entry) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, e.high)
	b = binary.BigEndian.AppendUint64(b, e.low)
	b = binary.BigEndian.AppendUint32(b, e.pack)
	return binary.BigEndian.AppendUint32(b, e.record)
}

func parseEntry(b []byte) entry {
	return entry{short(b), binary.BigEndian.Uint32(b[16:]), binary.BigEndian.Uint32(b[20:])}
}

// errIndex says that an index is not to be used. The next backup is a full one then.
var errIndex = errors.New("the index is not to be used")

// index is one to look into.
type index struct {
	entries []byte
	first   []uint32 // where those begin whose digest begins with these 16 bits
	mapped  []byte
}

func (x *index) close() {
	if x != nil && x.mapped != nil {
		syscall.Munmap(x.mapped)
		x.mapped, x.entries = nil, nil
	}
}

// readIndex reads that of a manifest, of a known size.
func readIndex(from io.Reader, size int64, of manifest.Manifest, scratch string) (*index, error) {
	if size < int64(indexHead+sha256.Size) || (size-int64(indexHead+sha256.Size))%entrySize != 0 {
		return nil, fmt.Errorf("%w: it has %d bytes", errIndex, size)
	}
	x := &index{}
	content, err := x.load(from, size, scratch)
	if err == nil {
		err = x.use(content, of)
	}
	if err != nil {
		x.close()
		return nil, err
	}
	return x, nil
}

// load brings an index into memory, or into a file that is mapped and has no name.
func (x *index) load(from io.Reader, size int64, scratch string) ([]byte, error) {
	if size <= inMemory {
		content := make([]byte, size)
		_, err := io.ReadFull(from, content)
		return content, err
	}
	file, err := scratchFile(scratch)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if n, err := io.Copy(file, from); err != nil || n != size {
		return nil, fmt.Errorf("%w: %d of %d bytes could be read: %w", errIndex, n, size, errors.Join(err))
	}
	x.mapped, err = syscall.Mmap(int(file.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the index: %w", err)
	}
	return x.mapped, nil
}

// use verifies an index.
func (x *index) use(content []byte, of manifest.Manifest) error {
	end := len(content) - sha256.Size
	sum := sha256.Sum256(content[:end])
	count := binary.BigEndian.Uint64(content[indexHead-8:])
	switch {
	case string(content[:len(indexMagic)]) != indexMagic:
		return fmt.Errorf("%w: it has another version", errIndex)
	case !bytes.Equal(sum[:], content[end:]):
		return fmt.Errorf("%w: its checksum is wrong", errIndex)
	case fmt.Sprintf("%x", content[len(indexMagic):len(indexMagic)+sha256.Size]) != of.Checksum:
		return fmt.Errorf("%w: it is of another manifest", errIndex)
	case count != uint64((end-indexHead)/entrySize):
		return fmt.Errorf("%w: it has %d records, and says %d", errIndex, (end-indexHead)/entrySize, count)
	}
	x.entries = content[indexHead:end]
	x.first = make([]uint32, 1<<16+1)
	for at := 0; at < len(x.entries); at += entrySize {
		x.first[int(binary.BigEndian.Uint16(x.entries[at:]))+1]++
	}
	for i := range 1 << 16 {
		x.first[i+1] += x.first[i]
	}
	return nil
}

// find gives a record's place.
func (x *index) find(d digest) (number, record uint32, ok bool) {
	bucket := d.high >> 48
	low, high := int(x.first[bucket]), int(x.first[bucket+1])
	i := low + sort.Search(high-low, func(i int) bool {
		return !short(x.entries[(low+i)*entrySize:]).less(d)
	})
	if i == high {
		return 0, 0, false
	}
	e := parseEntry(x.entries[i*entrySize:])
	return e.pack, e.record, e.digest == d
}

// scratchFile is a file without a name, which is gone when it is closed.
func scratchFile(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, "anna-index-*")
	if err != nil {
		return nil, fmt.Errorf("make a scratch file: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		file.Close()
		return nil, fmt.Errorf("make a scratch file: %w", err)
	}
	return file, nil
}
