package annanode

import (
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// entry is what a thread knows of a key.
type entry struct {
	payload []byte // in the memory tier
	size    uint32 // as reported
	lattice uint8  // of a stored key
	stored  bool
	known   bool // its replication factors are
	special bool // they are other than the defaults: in thread.special
}

func (e *entry) kind() wire.Lattice { return wire.Lattice(e.lattice) }

// store keeps the values of a thread.
type store interface {
	// put merges a value into what is there and tells the size to report.
	put(key string, e *entry, t wire.Lattice, payload []byte)
	// get answers with the value, as a client sees it.
	get(key string, e *entry) ([]byte, wire.Code)
	remove(key string, e *entry)
}

// memoryStore keeps values in their entries.
type memoryStore struct{}

func (memoryStore) put(_ string, e *entry, t wire.Lattice, payload []byte) {
	var have []byte
	if e.stored {
		have = e.payload
		if have == nil {
			have = []byte{}
		}
	}
	e.payload = merge(t, have, payload)
	e.size = reported(t, e.payload)
	e.lattice, e.stored = uint8(t), true
}

func (memoryStore) get(_ string, e *entry) ([]byte, wire.Code) {
	if empty(e.kind(), e.payload) {
		return e.payload, wire.KeyDNE
	}
	return e.payload, wire.NoError
}

func (memoryStore) remove(_ string, e *entry) { e.payload = nil }

// failed is the size that Anna reports for a key whose file it could not write, or
// whose file was left as it was.
const failed = math.MaxUint32

// diskStore keeps a file for each key, named as the key, with the value alone.
type diskStore struct {
	dir string
	log *slog.Logger
}

func newDiskStore(root string, tid int, log *slog.Logger) *diskStore {
	return &diskStore{filepath.Join(root, "ebs_"+strconv.Itoa(tid)), log}
}

// file is not cleaned: a key with dots and slashes goes where they lead.
func (d *diskStore) file(key string) string { return d.dir + "/" + key }

func (d *diskStore) put(key string, e *entry, t wire.Lattice, payload []byte) {
	if t == wire.TypePriority {
		e.size = d.putPriority(key, payload)
	} else {
		e.size = d.putMerged(key, t, payload)
	}
	e.lattice, e.stored = uint8(t), true
}

func (d *diskStore) putMerged(key string, t wire.Lattice, payload []byte) uint32 {
	have, err := os.ReadFile(d.file(key))
	if err != nil {
		have = nil
	} else if !valid(t, have) {
		d.log.Warn("a value that cannot be read stays", "key", key)
		return 0
	}
	merged := merge(t, have, payload)
	if err == nil && t == wire.TypeLWW {
		a, _ := wire.ParseLWW(have)
		if b, _ := wire.ParseLWW(payload); b.Timestamp < a.Timestamp {
			return failed
		}
	}
	if err := os.WriteFile(d.file(key), merged, 0o644); err != nil {
		d.log.Warn("a value is lost", "key", key, "err", err)
		return failed
	}
	return uint32(len(merged))
}

// putPriority has Anna's two mistakes: a new file is empty, which is a value of
// priority 0, so that only negative ones are ever written; and its mode is odd.
func (d *diskStore) putPriority(key string, payload []byte) uint32 {
	f, err := os.OpenFile(d.file(key), os.O_RDWR|os.O_CREATE, 0o044)
	if err != nil {
		d.log.Warn("a value is lost", "key", key, "err", err)
		return 0
	}
	defer func() { _ = f.Close() }()
	have, err := io.ReadAll(f)
	if err != nil {
		d.log.Warn("a value is lost", "key", key, "err", err)
		return 0
	}
	a, broken := wire.ParsePriority(have)
	b, _ := wire.ParsePriority(payload)
	if broken == nil && b.Priority >= a.Priority {
		return uint32(len(have))
	}
	out := wire.AppendPriority(nil, b)
	if err := f.Truncate(0); err != nil {
		d.log.Warn("a value is lost", "key", key, "err", err)
	}
	if _, err := f.WriteAt(out, 0); err != nil {
		d.log.Warn("a value is lost", "key", key, "err", err)
	}
	return uint32(len(out))
}

func (d *diskStore) get(key string, e *entry) ([]byte, wire.Code) {
	payload, err := os.ReadFile(d.file(key))
	if err != nil || !valid(e.kind(), payload) || empty(e.kind(), payload) {
		return nil, wire.KeyDNE
	}
	return payload, wire.NoError
}

func (d *diskStore) remove(key string, _ *entry) {
	if err := os.Remove(d.file(key)); err != nil {
		d.log.Warn("a file stays", "key", key, "err", err)
	}
}

func valid(t wire.Lattice, payload []byte) bool {
	var err error
	switch t {
	case wire.TypeLWW:
		_, err = wire.ParseLWW(payload)
	case wire.TypeSet, wire.TypeOrderedSet:
		_, err = wire.ParseSet(payload)
	case wire.TypeSingleCausal:
		_, err = wire.ParseSingleCausal(payload)
	case wire.TypeMultiCausal:
		_, err = wire.ParseMultiCausal(payload)
	case wire.TypePriority:
		_, err = wire.ParsePriority(payload)
	}
	return err == nil
}
