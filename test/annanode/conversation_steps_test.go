package annanode

import (
	"bytes"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/lattice"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// step is a request of one tuple and what it is answered.
type step struct {
	kind    wire.Kind
	key     string
	lattice wire.Lattice
	payload []byte
	// of the answer
	error wire.Code
	is    wire.Lattice
	has   []byte // nil: no payload
}

func put(key string, t wire.Lattice, payload []byte) step {
	return step{kind: wire.Put, key: key, lattice: t, payload: payload, is: t}
}

// refused is a PUT that is answered without error, and not done.
func refused(key string, t wire.Lattice, payload []byte) step {
	return step{kind: wire.Put, key: key, lattice: t, payload: payload}
}

func get(key string, t wire.Lattice, has []byte) step {
	return step{kind: wire.Get, key: key, is: t, has: has}
}

func missing(key string, t wire.Lattice, has []byte) step {
	return step{kind: wire.Get, key: key, error: wire.KeyDNE, is: t, has: has}
}

func hold(t *testing.T, k *talker, routing string, steps []step) {
	t.Helper()
	for i, s := range steps {
		got := k.one(k.owner(routing, s.key), s.kind, wire.Tuple{Key: s.key, Lattice: s.lattice, Payload: s.payload})
		ok := got.Error == s.error && got.Lattice == s.is && got.Key == s.key && !got.Invalidate
		if !ok || !same(s.is, got.Payload, s.has) {
			t.Errorf("step %d: %v %s %v %q: answer %v %v %q, want %v %v %q", i, s.kind, s.key, s.lattice, s.payload,
				got.Error, got.Lattice, got.Payload, s.error, s.is, s.has)
		}
	}
}

// same tells whether two payloads are one value; the order of sets and maps is free.
func same(t wire.Lattice, a, b []byte) bool {
	if bytes.Equal(a, b) || !t.Known() {
		return bytes.Equal(a, b)
	}
	x, errX := lattice.Canonical(t, a)
	y, errY := lattice.Canonical(t, b)
	return errX == nil && errY == nil && len(a) > 0 && len(b) > 0 && bytes.Equal(x, y)
}

func causal(clock wire.Clock, values ...string) []byte {
	v := wire.SingleCausal{Clock: clock}
	for _, s := range values {
		v.Values = append(v.Values, []byte(s))
	}
	return wire.AppendSingleCausal(nil, v)
}

func multi(clock wire.Clock, dependencies []wire.Version, values ...string) []byte {
	v := wire.MultiCausal{Clock: clock, Dependencies: dependencies}
	for _, s := range values {
		v.Values = append(v.Values, []byte(s))
	}
	return wire.AppendMultiCausal(nil, v)
}

func priority(p float64, value string) []byte {
	return wire.AppendPriority(nil, wire.Priority{Priority: p, Value: []byte(value)})
}

type clock = wire.Clock

// valueSteps are the same in both tiers.
func valueSteps() []step {
	deps := []wire.Version{{Key: "other", Clock: clock{"a": 1}}}
	more := []wire.Version{{Key: "other", Clock: clock{"b": 2}}, {Key: "third", Clock: clock{"c": 1}}}
	return []step{
		missing("nothing", wire.None, nil),

		put("lww", wire.TypeLWW, lww(100, "hundred")),
		get("lww", wire.TypeLWW, lww(100, "hundred")),
		put("lww", wire.TypeLWW, lww(99, "older")),
		get("lww", wire.TypeLWW, lww(100, "hundred")),
		put("lww", wire.TypeLWW, lww(100, "equal wins")),
		get("lww", wire.TypeLWW, lww(100, "equal wins")),
		refused("lww", wire.TypeSet, set("a")),
		refused("lww", wire.None, lww(200, "no type")),
		get("lww", wire.TypeLWW, lww(100, "equal wins")),
		refused("new without type", wire.None, lww(1, "x")),
		missing("new without type", wire.None, nil),

		put("set", wire.TypeSet, set("b", "a", "b")),
		get("set", wire.TypeSet, set("a", "b")),
		put("set", wire.TypeSet, set("c")),
		get("set", wire.TypeSet, set("c", "b", "a")),
		refused("set", wire.TypeOrderedSet, set("d")),

		put("ordered", wire.TypeOrderedSet, set("b", "a")),
		put("ordered", wire.TypeOrderedSet, set("aa", "")),
		get("ordered", wire.TypeOrderedSet, set("", "a", "aa", "b")),

		put("single", wire.TypeSingleCausal, causal(clock{"a": 1}, "one")),
		get("single", wire.TypeSingleCausal, causal(clock{"a": 1}, "one")),
		put("single", wire.TypeSingleCausal, causal(clock{"b": 1}, "two")),
		get("single", wire.TypeSingleCausal, causal(clock{"a": 1, "b": 1}, "two", "one")),
		put("single", wire.TypeSingleCausal, causal(clock{"a": 2, "b": 1}, "three")),
		get("single", wire.TypeSingleCausal, causal(clock{"a": 2, "b": 1}, "three")),
		put("single", wire.TypeSingleCausal, causal(clock{"a": 1}, "old")),
		get("single", wire.TypeSingleCausal, causal(clock{"a": 2, "b": 1}, "three")),

		put("multi", wire.TypeMultiCausal, multi(clock{"a": 1}, deps, "one")),
		put("multi", wire.TypeMultiCausal, multi(clock{"b": 1}, more, "two")),
		get("multi", wire.TypeMultiCausal, multi(clock{"a": 1, "b": 1},
			[]wire.Version{{Key: "other", Clock: clock{"a": 1, "b": 2}}, {Key: "third", Clock: clock{"c": 1}}}, "one", "two")),
		put("multi", wire.TypeMultiCausal, multi(clock{"a": 3, "b": 1}, nil, "three")),
		get("multi", wire.TypeMultiCausal, multi(clock{"a": 3, "b": 1}, nil, "three")),
	}
}
