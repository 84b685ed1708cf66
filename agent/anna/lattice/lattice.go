// Package lattice compares and merges values as Anna does.
//
// Two answers to the same GET may differ in bytes though the value is one: the order
// of a set's elements and of a vector clock's entries is the hash table's of that
// process. So values are compared and hashed in canonical form only.
package lattice

import (
	"fmt"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// parsed is a value of any type, so that one switch knows how to read it.
type parsed struct {
	lww      wire.LWW
	set      set
	clock    wire.Clock
	depends  map[string]wire.Clock
	priority wire.Priority
}

func parse(t wire.Lattice, payload []byte) (parsed, error) {
	var p parsed
	var err error
	switch t {
	case wire.TypeLWW:
		p.lww, err = wire.ParseLWW(payload)
	case wire.TypeSet, wire.TypeOrderedSet:
		var s wire.Set
		s, err = wire.ParseSet(payload)
		p.set = newSet(s.Values)
	case wire.TypeSingleCausal:
		var s wire.SingleCausal
		s, err = wire.ParseSingleCausal(payload)
		p.clock, p.set = s.Clock, newSet(s.Values)
	case wire.TypeMultiCausal:
		var m wire.MultiCausal
		m, err = wire.ParseMultiCausal(payload)
		p.clock, p.set, p.depends = m.Clock, newSet(m.Values), dependencies(m.Dependencies)
	case wire.TypePriority:
		p.priority, err = wire.ParsePriority(payload)
	default:
		return p, fmt.Errorf("a value of type %s cannot be read", t)
	}
	if err != nil {
		return p, fmt.Errorf("a value of type %s: %w", t, err)
	}
	return p, nil
}

func (p parsed) bytes(t wire.Lattice) []byte {
	switch t {
	case wire.TypeLWW:
		return wire.AppendLWW(nil, p.lww)
	case wire.TypeSet, wire.TypeOrderedSet:
		return wire.AppendSet(nil, wire.Set{Values: p.set})
	case wire.TypeSingleCausal:
		return wire.AppendSingleCausal(nil, wire.SingleCausal{Clock: p.clock, Values: p.set})
	case wire.TypeMultiCausal:
		return wire.AppendMultiCausal(nil, wire.MultiCausal{Clock: p.clock, Dependencies: versions(p.depends), Values: p.set})
	default:
		return wire.AppendPriority(nil, p.priority)
	}
}

// Canonical writes a value so that the same value is the same bytes: elements and
// names sorted, each once; what Anna does not know of is left out. An ordered set,
// too: its order in Anna is that of the values, not that of their arrival. What is
// canonical already is returned as it is, without a copy.
func Canonical(t wire.Lattice, payload []byte) ([]byte, error) {
	if canonical(t, payload) {
		return payload, nil // most values there are, and none too large to copy
	}
	p, err := parse(t, payload)
	if err != nil {
		return nil, err
	}
	return p.bytes(t), nil
}

// Empty tells whether it is a value that Anna says KEY_DNE of though the key is
// there. An empty ordered set is not: it is answered without an error.
func Empty(t wire.Lattice, payload []byte) bool {
	p, err := parse(t, payload)
	if err != nil {
		return false
	}
	switch t {
	case wire.TypeLWW:
		return len(p.lww.Value) == 0
	case wire.TypePriority:
		return len(p.priority.Value) == 0
	case wire.TypeOrderedSet:
		return false
	default:
		return len(p.set) == 0
	}
}
