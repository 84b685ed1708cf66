package lattice

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// The tags of fields: bytes of field 1 to 3, numbers of field 1 and 2, eight bytes of field 1.
const (
	bytes1, bytes2, bytes3 = 1<<3 | 2, 2<<3 | 2, 3<<3 | 2
	number1, number2       = 1 << 3, 2 << 3
	double1                = 1<<3 | 1
)

// canonical tells whether a payload is what Canonical would make of it, without making
// it: most that a backup reads are. False where it is not sure.
func canonical(t wire.Lattice, b []byte) bool {
	ok := true
	switch t {
	case wire.TypeLWW:
		if len(b) > 0 && b[0] == number1 {
			var stamp uint64
			if stamp, b, ok = number(b[1:]); !ok || stamp == 0 {
				return false
			}
		}
		return lastValue(b)
	case wire.TypeSet, wire.TypeOrderedSet:
		b, ok = ascending(b, bytes1)
	case wire.TypeSingleCausal:
		if b, ok = clock(b, bytes1); ok {
			b, ok = ascending(b, bytes2)
		}
	case wire.TypeMultiCausal:
		if b, ok = clock(b, bytes1); ok {
			if b, ok = versionsOf(b); ok {
				b, ok = ascending(b, bytes3)
			}
		}
	case wire.TypePriority:
		if len(b) >= 9 && b[0] == double1 {
			if binary.LittleEndian.Uint64(b[1:]) == 0 {
				return false
			}
			b = b[9:]
		}
		return lastValue(b)
	default:
		return false
	}
	return ok && len(b) == 0
}

// number takes a varint that is as short as it can be.
func number(b []byte) (value uint64, rest []byte, ok bool) {
	value, n := binary.Uvarint(b)
	if n <= 0 || n > 1 && b[n-1] == 0 {
		return 0, nil, false
	}
	return value, b[n:], true
}

// take takes a field of bytes; there is none where the tag is another.
func take(b []byte, tag byte) (value, rest []byte, is, ok bool) {
	if len(b) == 0 || b[0] != tag {
		return nil, b, false, true
	}
	size, rest, ok := number(b[1:])
	if !ok || size > uint64(len(rest)) {
		return nil, nil, false, false
	}
	return rest[:size], rest[size:], true, true
}

// lastValue: nothing but a value in field 2, which is not there when it is empty.
func lastValue(b []byte) bool {
	value, rest, is, ok := take(b, bytes2)
	return ok && len(rest) == 0 && is == (len(value) > 0)
}

// ascending takes the elements of a set, each greater than the one before.
func ascending(b []byte, tag byte) (rest []byte, ok bool) {
	var before []byte
	for first := true; ; first = false {
		value, rest, is, ok := take(b, tag)
		if !is || !ok {
			return rest, ok
		}
		if !first && bytes.Compare(before, value) >= 0 {
			return nil, false
		}
		before, b = value, rest
	}
}

// clock takes the entries of a vector clock, in the order of their names.
func clock(b []byte, tag byte) (rest []byte, ok bool) {
	var before []byte
	for first := true; ; first = false {
		entry, rest, is, ok := take(b, tag)
		if !is || !ok {
			return rest, ok
		}
		name, entry, is, ok := take(entry, bytes1)
		if !is || !ok || !first && bytes.Compare(before, name) >= 0 || len(entry) == 0 || entry[0] != number2 {
			return nil, false
		}
		value, end, ok := number(entry[1:])
		if !ok || len(end) > 0 || value > math.MaxUint32 {
			return nil, false
		}
		before, b = name, rest
	}
}

// versionsOf takes the dependencies of a value, in the order of their keys.
func versionsOf(b []byte) (rest []byte, ok bool) {
	var before []byte
	for first := true; ; first = false {
		version, rest, is, ok := take(b, bytes2)
		if !is || !ok {
			return rest, ok
		}
		key, version, is, ok := take(version, bytes1)
		if !ok || is != (len(key) > 0) || !first && bytes.Compare(before, key) >= 0 {
			return nil, false
		}
		if end, ok := clock(version, bytes2); !ok || len(end) > 0 {
			return nil, false
		}
		before, b = key, rest
	}
}
