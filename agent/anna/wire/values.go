package wire

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// LWW is a value of TypeLWW: the one with the greater timestamp wins, with an
// equal one the later to arrive. Anna's timestamps are milliseconds times a power of
// ten plus a thread number. An empty value is what Anna says KEY_DNE of.
type LWW struct {
	Timestamp uint64
	Value     []byte
}

// Set is a value of TypeSet and of TypeOrderedSet: the order of the values means nothing.
type Set struct{ Values [][]byte }

// Clock is a vector clock.
type Clock map[string]uint32

// SingleCausal is a value of TypeSingleCausal.
type SingleCausal struct {
	Clock  Clock
	Values [][]byte
}

// Version is a key at a version.
type Version struct {
	Key   string
	Clock Clock
}

// MultiCausal is a value of TypeMultiCausal.
type MultiCausal struct {
	Clock        Clock
	Dependencies []Version
	Values       [][]byte
}

// Priority is a value of TypePriority: the lowest wins.
type Priority struct {
	Priority float64
	Value    []byte
}

// AppendLWW writes a value.
func AppendLWW(b []byte, m LWW) []byte {
	return appendBytes(appendNumber(b, 1, m.Timestamp), 2, m.Value)
}

// ParseLWW reads a value.
func ParseLWW(b []byte) (LWW, error) {
	var m LWW
	for len(b) > 0 {
		f, n, err := next(b)
		if err != nil {
			return m, err
		}
		b = b[n:]
		switch {
		case f.number == 1:
			f.number64(&m.Timestamp)
		case f.number == 2 && f.kind == protowire.BytesType:
			m.Value = f.bytes
		}
	}
	return m, nil
}

// AppendSet writes a value.
func AppendSet(b []byte, m Set) []byte { return appendValues(b, 1, m.Values) }

func appendValues(b []byte, number protowire.Number, values [][]byte) []byte {
	for _, value := range values {
		b = appendElement(b, number, value)
	}
	return b
}

func (f field) values(to *[][]byte) {
	if f.kind == protowire.BytesType {
		*to = append(*to, f.bytes)
	}
}

// ParseSet reads a value.
func ParseSet(b []byte) (Set, error) {
	var m Set
	err := each(b, func(f field) error {
		if f.number == 1 {
			f.values(&m.Values)
		}
		return nil
	})
	return m, err
}

// appendClock writes a map as protobuf does, one message an entry, sorted by name so
// that equal clocks are equal bytes.
func appendClock(b []byte, number protowire.Number, clock Clock) []byte {
	names := make([]string, 0, len(clock))
	for name := range clock {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		// Both fields are written, the zero too, as the C++ library does for a map.
		value := uint64(clock[name])
		size := 1 + protowire.SizeBytes(len(name)) + 1 + protowire.SizeVarint(value)
		b = protowire.AppendTag(b, number, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(size))
		b = appendElement(b, 1, name)
		b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), value)
	}
	return b
}

// clock reads one entry of a map. The last of equal names wins.
func (f field) clock(to *Clock) error {
	if f.kind != protowire.BytesType {
		return nil
	}
	var name string
	var value uint64
	err := each(f.bytes, func(f field) error {
		switch f.number {
		case 1:
			f.text(&name)
		case 2:
			f.number64(&value)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("a vector clock's entry: %w", err)
	}
	if *to == nil {
		*to = Clock{}
	}
	(*to)[name] = uint32(value)
	return nil
}

// AppendSingleCausal writes a value.
func AppendSingleCausal(b []byte, m SingleCausal) []byte {
	return appendValues(appendClock(b, 1, m.Clock), 2, m.Values)
}

// ParseSingleCausal reads a value.
func ParseSingleCausal(b []byte) (SingleCausal, error) {
	var m SingleCausal
	err := each(b, func(f field) error {
		switch f.number {
		case 1:
			return f.clock(&m.Clock)
		case 2:
			f.values(&m.Values)
		}
		return nil
	})
	return m, err
}

// AppendMultiCausal writes a value.
func AppendMultiCausal(b []byte, m MultiCausal) []byte {
	b = appendClock(b, 1, m.Clock)
	for _, dependency := range m.Dependencies {
		version := appendClock(appendText(nil, 1, dependency.Key), 2, dependency.Clock)
		b = appendElement(b, 2, version)
	}
	return appendValues(b, 3, m.Values)
}

// ParseMultiCausal reads a value.
func ParseMultiCausal(b []byte) (MultiCausal, error) {
	var m MultiCausal
	err := each(b, func(f field) error {
		switch f.number {
		case 1:
			return f.clock(&m.Clock)
		case 2:
			return f.version(&m.Dependencies)
		case 3:
			f.values(&m.Values)
		}
		return nil
	})
	return m, err
}

func (f field) version(to *[]Version) error {
	if f.kind != protowire.BytesType {
		return nil
	}
	var version Version
	err := each(f.bytes, func(f field) error {
		switch f.number {
		case 1:
			f.text(&version.Key)
		case 2:
			return f.clock(&version.Clock)
		}
		return nil
	})
	*to = append(*to, version)
	return err
}

// AppendPriority writes a value.
func AppendPriority(b []byte, m Priority) []byte {
	if bits := math.Float64bits(m.Priority); bits != 0 {
		b = protowire.AppendFixed64(protowire.AppendTag(b, 1, protowire.Fixed64Type), bits)
	}
	return appendBytes(b, 2, m.Value)
}

// ParsePriority reads a value.
func ParsePriority(b []byte) (Priority, error) {
	var m Priority
	err := each(b, func(f field) error {
		switch {
		case f.number == 1 && f.kind == protowire.Fixed64Type:
			m.Priority = math.Float64frombits(f.value)
		case f.number == 2 && f.kind == protowire.BytesType:
			m.Value = f.bytes
		}
		return nil
	})
	return m, err
}
