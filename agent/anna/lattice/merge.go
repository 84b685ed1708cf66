package lattice

import (
	"bytes"
	"maps"
	"math"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// Merge is what Anna's memory tier has after a PUT of with on have, in canonical
// form; nil for have is a key that was not there. An LWW value with an equal
// timestamp overwrites, a priority that is equal does not.
func Merge(t wire.Lattice, have, with []byte) ([]byte, error) {
	added, err := parse(t, with)
	if err != nil {
		return nil, err
	}
	before := parsed{priority: wire.Priority{Priority: math.MaxInt32}} // Anna's value of no value
	if have != nil {
		if before, err = parse(t, have); err != nil {
			return nil, err
		}
	}
	return merge(t, before, added).bytes(t), nil
}

func merge(t wire.Lattice, have, with parsed) parsed {
	switch t {
	case wire.TypeLWW:
		if with.lww.Timestamp >= have.lww.Timestamp {
			return with
		}
	case wire.TypeSet, wire.TypeOrderedSet:
		have.set = have.set.union(with.set)
	case wire.TypePriority:
		if with.priority.Priority < have.priority.Priority {
			return with
		}
	default:
		return mergeCausal(have, with)
	}
	return have
}

// mergeCausal: a clock that is at least as great everywhere replaces the value, one
// that is nowhere greater changes nothing, others are concurrent.
func mergeCausal(have, with parsed) parsed {
	clock := joined(have.clock, with.clock)
	switch {
	case maps.Equal(clock, with.clock):
		return with
	case maps.Equal(clock, have.clock):
		return have
	}
	return parsed{
		clock:   clock,
		set:     have.set.union(with.set),
		depends: mergeDependencies(have.depends, with.depends),
	}
}

// Covers tells whether a key that has one value needs no PUT of another: it holds it
// already, or what came after it. For an LWW value that is the same value or a
// greater timestamp, for a set a superset, for a causal value a clock that is
// greater, for a priority one that is not higher.
func Covers(t wire.Lattice, have, want []byte) (bool, error) {
	h, err := parse(t, have)
	if err != nil {
		return false, err
	}
	w, err := parse(t, want)
	if err != nil {
		return false, err
	}
	switch t {
	case wire.TypeLWW:
		return h.lww.Timestamp > w.lww.Timestamp ||
			h.lww.Timestamp == w.lww.Timestamp && bytes.Equal(h.lww.Value, w.lww.Value), nil
	case wire.TypeSet, wire.TypeOrderedSet:
		return h.set.has(w.set), nil
	case wire.TypePriority:
		return !(w.priority.Priority < h.priority.Priority), nil
	}
	if !maps.Equal(joined(h.clock, w.clock), h.clock) {
		return false, nil
	}
	return !maps.Equal(h.clock, w.clock) || h.set.has(w.set), nil
}
