package manifest

import (
	"encoding/binary"
	"encoding/hex"
)

// Sum is of records' digests, whatever order they come in: their sum, in four numbers of
// 64 bits. Two that differ by a record, or by one twice, differ.
type Sum [4]uint64

// Add takes a record's digest.
func (s *Sum) Add(digest [32]byte) {
	for i := range s {
		s[i] += binary.LittleEndian.Uint64(digest[8*i:])
	}
}

// Join takes what another has taken.
func (s *Sum) Join(other Sum) {
	for i := range s {
		s[i] += other[i]
	}
}

// String is 64 hexadecimal digits.
func (s Sum) String() string {
	var b [32]byte
	for i, x := range s {
		binary.LittleEndian.PutUint64(b[8*i:], x)
	}
	return hex.EncodeToString(b[:])
}
