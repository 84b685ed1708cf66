package lattice

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"sync"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// domain keeps a digest from ever being one of something else.
const domain = "stategraft/anna/record/1\x00"

type hasher struct {
	hash hash.Hash
	head []byte
}

var hashers = sync.Pool{New: func() any { return &hasher{hash: sha256.New()} }}

// Digest is of a key, a type and a value: the same for the same value, whatever
// replica it was read from.
func Digest(key string, t wire.Lattice, payload []byte) ([32]byte, error) {
	var sum [32]byte
	canonical, err := Canonical(t, payload)
	if err != nil {
		return sum, fmt.Errorf("digest of key %q: %w", key, err)
	}
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	h.hash.Reset()
	// The lengths keep one part from running into the next.
	h.head = append(h.head[:0], domain...)
	h.head = binary.AppendUvarint(h.head, uint64(t))
	h.head = binary.AppendUvarint(h.head, uint64(len(key)))
	h.head = append(h.head, key...)
	h.head = binary.AppendUvarint(h.head, uint64(len(canonical)))
	h.hash.Write(h.head)
	h.hash.Write(canonical)
	h.head = h.hash.Sum(h.head[:0])
	copy(sum[:], h.head)
	return sum, nil
}
