package annanode

import (
	"maps"
	"math"
	"slices"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// The values are merged here and not with agent/anna/lattice, which the tests hold
// against these nodes.

// merge is the payload of two values of a type, in new memory; have is nil for a
// key that is new. What cannot be read counts as far as it was read, as in Anna.
func merge(t wire.Lattice, have, with []byte) []byte {
	switch t {
	case wire.TypeLWW:
		return mergeLWW(have, with)
	case wire.TypeSet, wire.TypeOrderedSet:
		a, _ := wire.ParseSet(have)
		b, _ := wire.ParseSet(with)
		values := union(a.Values, b.Values)
		if t == wire.TypeOrderedSet {
			slices.SortFunc(values, slices.Compare)
		}
		return wire.AppendSet(nil, wire.Set{Values: values})
	case wire.TypeSingleCausal:
		a, _ := wire.ParseSingleCausal(have)
		b, _ := wire.ParseSingleCausal(with)
		b.Values = union(nil, b.Values)
		clock, way := mergeClocks(a.Clock, b.Clock)
		switch way {
		case newer:
			a.Values = b.Values
		case concurrent:
			a.Values = union(a.Values, b.Values)
		}
		a.Clock = clock
		return wire.AppendSingleCausal(nil, a)
	case wire.TypeMultiCausal:
		a, _ := wire.ParseMultiCausal(have)
		b, _ := wire.ParseMultiCausal(with)
		return wire.AppendMultiCausal(nil, mergeMulti(a, b))
	case wire.TypePriority:
		// Before the first PUT a key has the priority INT_MAX and no value.
		a := wire.Priority{Priority: math.MaxInt32}
		if have != nil {
			a, _ = wire.ParsePriority(have)
		}
		if b, _ := wire.ParsePriority(with); b.Priority < a.Priority {
			a = b
		}
		return wire.AppendPriority(nil, a)
	}
	return nil
}

func mergeLWW(have, with []byte) []byte {
	a, _ := wire.ParseLWW(have)
	b, _ := wire.ParseLWW(with)
	if b.Timestamp >= a.Timestamp {
		a = b
	}
	return wire.AppendLWW(make([]byte, 0, len(a.Value)+16), a)
}

// union is both without what is there twice, in the order of coming.
func union(a, b [][]byte) [][]byte {
	seen := make(map[string]bool, len(a)+len(b))
	var all [][]byte
	for _, values := range [][][]byte{a, b} {
		for _, v := range values {
			if !seen[string(v)] {
				seen[string(v)] = true
				all = append(all, v)
			}
		}
	}
	return all
}

type order int

const (
	older order = iota
	newer
	concurrent
)

// mergeClocks tells the joined clock, and how with stands to have: Anna compares
// the join with both.
func mergeClocks(have, with wire.Clock) (wire.Clock, order) {
	joined := maps.Clone(have)
	if joined == nil {
		joined = wire.Clock{}
	}
	for id, n := range with {
		if at, ok := joined[id]; !ok || at < n {
			joined[id] = n
		}
	}
	switch {
	case maps.Equal(joined, with):
		return joined, newer
	case maps.Equal(joined, have):
		return joined, older
	}
	return joined, concurrent
}

func mergeMulti(a, b wire.MultiCausal) wire.MultiCausal {
	b.Values = union(nil, b.Values)
	b.Dependencies = mergeVersions(nil, b.Dependencies)
	clock, way := mergeClocks(a.Clock, b.Clock)
	switch way {
	case newer:
		a.Values, a.Dependencies = b.Values, b.Dependencies
	case concurrent:
		a.Values, a.Dependencies = union(a.Values, b.Values), mergeVersions(a.Dependencies, b.Dependencies)
	}
	a.Clock = clock
	return a
}

// mergeVersions joins the clocks of each key.
func mergeVersions(a, b []wire.Version) []wire.Version {
	var all []wire.Version
	for _, versions := range [][]wire.Version{a, b} {
		for _, v := range versions {
			i := slices.IndexFunc(all, func(w wire.Version) bool { return w.Key == v.Key })
			if i < 0 {
				all = append(all, v)
				continue
			}
			all[i].Clock, _ = mergeClocks(all[i].Clock, v.Clock)
		}
	}
	return all
}

// empty tells whether Anna answers KEY_DNE for a value that it has: an ordered set
// is never empty in that sense.
func empty(t wire.Lattice, payload []byte) bool {
	switch t {
	case wire.TypeLWW:
		v, _ := wire.ParseLWW(payload)
		return len(v.Value) == 0
	case wire.TypeSet:
		v, _ := wire.ParseSet(payload)
		return len(v.Values) == 0
	case wire.TypeSingleCausal:
		v, _ := wire.ParseSingleCausal(payload)
		return len(v.Values) == 0
	case wire.TypeMultiCausal:
		v, _ := wire.ParseMultiCausal(payload)
		return len(v.Values) == 0
	case wire.TypePriority:
		v, _ := wire.ParsePriority(payload)
		return len(v.Value) == 0
	}
	return false
}

// reported is the size of a value in memory in a report: bytes or elements,
// depending on the type.
func reported(t wire.Lattice, payload []byte) uint32 {
	switch t {
	case wire.TypeLWW:
		v, _ := wire.ParseLWW(payload)
		return uint32(len(v.Value)) + 8
	case wire.TypeSet, wire.TypeOrderedSet:
		v, _ := wire.ParseSet(payload)
		return uint32(len(v.Values))
	case wire.TypeSingleCausal:
		v, _ := wire.ParseSingleCausal(payload)
		return uint32(len(v.Clock)*8 + len(v.Values))
	case wire.TypeMultiCausal:
		v, _ := wire.ParseMultiCausal(payload)
		size := len(v.Clock)*8 + len(v.Values)
		for _, d := range v.Dependencies {
			size += len(d.Clock) * 8
		}
		return uint32(size)
	case wire.TypePriority:
		v, _ := wire.ParsePriority(payload)
		return uint32(len(v.Value)) + 8
	}
	return 0
}
