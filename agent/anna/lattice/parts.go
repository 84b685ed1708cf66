package lattice

import (
	"bytes"
	"maps"
	"slices"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// set are values sorted, each once.
type set [][]byte

func newSet(values [][]byte) set {
	slices.SortFunc(values, bytes.Compare)
	return slices.CompactFunc(values, bytes.Equal)
}

func (s set) union(with set) set {
	return newSet(slices.Concat(s, with))
}

// has tells whether all of want are in s.
func (s set) has(want set) bool {
	for _, value := range want {
		if _, found := slices.BinarySearchFunc(s, value, bytes.Compare); !found {
			return false
		}
	}
	return true
}

// joined is the clock with the greater of both at every name.
func joined(a, b wire.Clock) wire.Clock {
	if len(a) == 0 && len(b) == 0 {
		return nil
	}
	result := make(wire.Clock, max(len(a), len(b)))
	maps.Copy(result, a)
	for name, value := range b {
		result[name] = max(result[name], value)
	}
	return result
}

// dependencies are versions by key, those of one key merged.
func dependencies(list []wire.Version) map[string]wire.Clock {
	if len(list) == 0 {
		return nil
	}
	byKey := make(map[string]wire.Clock, len(list))
	for _, version := range list {
		byKey[version.Key] = joined(byKey[version.Key], version.Clock)
	}
	return byKey
}

func versions(byKey map[string]wire.Clock) []wire.Version {
	list := make([]wire.Version, 0, len(byKey))
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		list = append(list, wire.Version{Key: key, Clock: byKey[key]})
	}
	return list
}

func mergeDependencies(a, b map[string]wire.Clock) map[string]wire.Clock {
	if len(a) == 0 && len(b) == 0 {
		return nil
	}
	result := maps.Clone(a)
	if result == nil {
		result = make(map[string]wire.Clock, len(b))
	}
	for key, clock := range b {
		result[key] = joined(result[key], clock)
	}
	return result
}
