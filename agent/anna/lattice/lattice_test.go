package lattice

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

func lww(ts uint64, value string) []byte {
	return wire.AppendLWW(nil, wire.LWW{Timestamp: ts, Value: []byte(value)})
}

func setOf(values ...string) []byte {
	return wire.AppendSet(nil, wire.Set{Values: bytesOf(values)})
}

func bytesOf(values []string) [][]byte {
	var all [][]byte
	for _, v := range values {
		all = append(all, []byte(v))
	}
	return all
}

func single(clock wire.Clock, values ...string) []byte {
	return wire.AppendSingleCausal(nil, wire.SingleCausal{Clock: clock, Values: bytesOf(values)})
}

func multi(clock wire.Clock, depends []wire.Version, values ...string) []byte {
	return wire.AppendMultiCausal(nil, wire.MultiCausal{Clock: clock, Dependencies: depends, Values: bytesOf(values)})
}

func priority(p float64, value string) []byte {
	return wire.AppendPriority(nil, wire.Priority{Priority: p, Value: []byte(value)})
}

func TestCanonical(t *testing.T) {
	a1, b2 := "\x0a\x05\x0a\x01a\x10\x01", "\x0a\x05\x0a\x01b\x10\x02"
	for _, test := range []struct {
		name       string
		t          wire.Lattice
		have, want string
	}{
		{"LWW", wire.TypeLWW, string(lww(7, "v")), string(lww(7, "v"))},
		{"LWW, other order", wire.TypeLWW, "\x12\x01v\x08\x07", string(lww(7, "v"))},
		{"LWW, explicit zero", wire.TypeLWW, "\x08\x00\x12\x01v", string(lww(0, "v"))},
		{"LWW, long number", wire.TypeLWW, "\x08\x87\x00\x12\x01v", string(lww(7, "v"))},
		{"LWW, twice", wire.TypeLWW, "\x08\x01\x08\x07\x12\x01v", string(lww(7, "v"))},
		{"set", wire.TypeSet, string(setOf("b", "", "a", "b")), string(setOf("", "a", "b"))},
		{"ordered set", wire.TypeOrderedSet, string(setOf("b", "a")), string(setOf("a", "b"))},
		{"single", wire.TypeSingleCausal, b2 + "\x12\x01y\x12\x01x" + a1, a1 + b2 + "\x12\x01x\x12\x01y"},
		{"multi", wire.TypeMultiCausal,
			b2 + string(multi(nil, []wire.Version{{Key: "l", Clock: wire.Clock{"x": 1}}, {Key: "k"}, {Key: "l", Clock: wire.Clock{"x": 3, "y": 1}}}, "v")) + a1,
			string(multi(wire.Clock{"a": 1, "b": 2}, []wire.Version{{Key: "k"}, {Key: "l", Clock: wire.Clock{"x": 3, "y": 1}}}, "v"))},
		{"priority", wire.TypePriority, "\x12\x01v\x09\x00\x00\x00\x00\x00\x00\xf0\x3f", string(priority(1, "v"))},
		{"unknown fields", wire.TypeSet, string(setOf("a")) + "\x50\x01", string(setOf("a"))},
	} {
		got, err := Canonical(test.t, []byte(test.have))
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %q, %v, want %q", test.name, got, err, test.want)
		}
		again, err := Canonical(test.t, got)
		if err != nil || !bytes.Equal(again, got) {
			t.Errorf("%s: twice is %q, %v", test.name, again, err)
		}
		if !canonical(test.t, got) {
			t.Errorf("%s: what is canonical is not seen to be", test.name)
		}
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	for _, lattice := range append(wire.Lattices, wire.None, 99) {
		torn := []byte("\x0a\x05")
		if _, err := Canonical(lattice, torn); err == nil {
			t.Errorf("%s: canonical", lattice)
		}
		if _, err := Merge(lattice, torn, torn); err == nil {
			t.Errorf("%s: merged", lattice)
		}
		if _, err := Covers(lattice, torn, torn); err == nil {
			t.Errorf("%s: covers", lattice)
		}
		if _, err := Digest("k", lattice, torn); err == nil {
			t.Errorf("%s: digest", lattice)
		}
	}
}

// The cases are Anna's do_merge, each side of every comparison.
func TestMergeAndCovers(t *testing.T) {
	a1, a2, b1 := wire.Clock{"a": 1}, wire.Clock{"a": 2}, wire.Clock{"b": 1}
	ab := wire.Clock{"a": 1, "b": 1}
	k1 := []wire.Version{{Key: "k", Clock: a1}}
	kl := []wire.Version{{Key: "k", Clock: ab}, {Key: "l", Clock: b1}}
	for _, test := range []struct {
		name             string
		t                wire.Lattice
		have, with, want []byte
		covers           bool
	}{
		{"LWW newer", wire.TypeLWW, lww(1, "a"), lww(2, "b"), lww(2, "b"), false},
		{"LWW older", wire.TypeLWW, lww(2, "a"), lww(1, "b"), lww(2, "a"), true},
		{"LWW as old", wire.TypeLWW, lww(2, "a"), lww(2, "b"), lww(2, "b"), false},
		{"LWW the same", wire.TypeLWW, lww(2, "a"), lww(2, "a"), lww(2, "a"), true},
		{"LWW over nothing", wire.TypeLWW, nil, lww(0, "a"), lww(0, "a"), false},
		{"LWW emptied", wire.TypeLWW, lww(2, "a"), lww(3, ""), lww(3, ""), false},
		{"set", wire.TypeSet, setOf("c", "a"), setOf("b", "a"), setOf("a", "b", "c"), false},
		{"set, part of it", wire.TypeSet, setOf("c", "a"), setOf("a"), setOf("a", "c"), true},
		{"ordered set", wire.TypeOrderedSet, setOf("a"), setOf("b"), setOf("a", "b"), false},
		{"empty set", wire.TypeSet, nil, nil, nil, true},
		{"priority lower", wire.TypePriority, priority(2, "a"), priority(1, "b"), priority(1, "b"), false},
		{"priority equal", wire.TypePriority, priority(2, "a"), priority(2, "b"), priority(2, "a"), true},
		{"priority higher", wire.TypePriority, priority(2, "a"), priority(3, "b"), priority(2, "a"), true},
		{"priority negative", wire.TypePriority, priority(0, "a"), priority(-1, "b"), priority(-1, "b"), false},
		{"priority over nothing", wire.TypePriority, nil, priority(5, "a"), priority(5, "a"), false},
		{"clock greater", wire.TypeSingleCausal, single(a1, "x"), single(a2, "y"), single(a2, "y"), false},
		{"clock smaller", wire.TypeSingleCausal, single(a2, "x"), single(a1, "y"), single(a2, "x"), true},
		{"clock equal", wire.TypeSingleCausal, single(a1, "x"), single(a1, "y"), single(a1, "y"), false},
		{"clocks concurrent", wire.TypeSingleCausal, single(a1, "x"), single(b1, "y"), single(ab, "x", "y"), false},
		{"clock over nothing", wire.TypeSingleCausal, nil, single(a1, "x"), single(a1, "x"), false},
		{"zero is a name", wire.TypeSingleCausal, single(a1, "x"), single(wire.Clock{"a": 1, "z": 0}, "y"), single(wire.Clock{"a": 1, "z": 0}, "y"), false},
		{"concurrent dependencies", wire.TypeMultiCausal, multi(a1, k1, "x"),
			multi(b1, []wire.Version{{Key: "l", Clock: b1}, {Key: "k", Clock: b1}}, "y"), multi(ab, kl, "x", "y"), false},
		{"dependencies replaced", wire.TypeMultiCausal, multi(a1, kl, "x"), multi(a2, k1, "y"), multi(a2, k1, "y"), false},
	} {
		got, err := Merge(test.t, test.have, test.with)
		if err != nil || !bytes.Equal(got, test.want) {
			t.Errorf("%s: %q, %v, want %q", test.name, got, err, test.want)
		}
		if test.have == nil && test.with != nil {
			continue
		}
		covers, err := Covers(test.t, test.have, test.with)
		if err != nil || covers != test.covers {
			t.Errorf("%s: covers %t, %v", test.name, covers, err)
		}
	}
}

func TestEmpty(t *testing.T) {
	for _, test := range []struct {
		t       wire.Lattice
		payload []byte
		want    bool
	}{
		{wire.TypeLWW, lww(7, ""), true},
		{wire.TypeLWW, nil, true},
		{wire.TypeLWW, lww(7, "x"), false},
		{wire.TypeSet, nil, true},
		{wire.TypeSet, setOf(""), false},
		{wire.TypeOrderedSet, nil, false},
		{wire.TypeSingleCausal, single(wire.Clock{"a": 1}), true},
		{wire.TypeMultiCausal, multi(nil, nil, "v"), false},
		{wire.TypePriority, priority(-3, ""), true},
		{wire.None, nil, false},
	} {
		if got := Empty(test.t, test.payload); got != test.want {
			t.Errorf("%s %q: %t", test.t, test.payload, got)
		}
	}
}

func TestDigest(t *testing.T) {
	seen := map[[32]byte]string{}
	for name, of := range map[string]struct {
		key     string
		t       wire.Lattice
		payload []byte
	}{
		"a set":             {"k", wire.TypeSet, setOf("a", "b")},
		"another type":      {"k", wire.TypeOrderedSet, setOf("a", "b")},
		"another key":       {"kk", wire.TypeSet, setOf("a", "b")},
		"another value":     {"k", wire.TypeSet, setOf("a", "c")},
		"key into value":    {"k\x00", wire.TypeLWW, lww(1, "x")},
		"another timestamp": {"k\x00", wire.TypeLWW, lww(2, "x")},
		"nothing":           {"", wire.TypeSet, nil},
	} {
		sum, err := Digest(of.key, of.t, of.payload)
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := seen[sum]; twice {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[sum] = name
	}
	if _, ok := seen[must(Digest("k", wire.TypeSet, setOf("b", "a", "b")))]; !ok {
		t.Error("the order of a set changes its digest")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A merge is one with any order and number of the same values, but for those types
// where the later of two equals wins.
func TestMergeIsALattice(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		a, b, c := randomSingle(random), randomSingle(random), randomSingle(random)
		for _, s := range []struct {
			t       wire.Lattice
			a, b, c []byte
		}{
			{wire.TypeSet, randomSet(random), randomSet(random), randomSet(random)},
			{wire.TypeSingleCausal, a, b, c},
			{wire.TypePriority, priority(float64(random.IntN(9)), "x"), priority(float64(random.IntN(9)), "x"), priority(math.Pi, "x")},
		} {
			merged := must(Merge(s.t, must(Merge(s.t, s.a, s.b)), s.c))
			for _, one := range [][]byte{s.a, s.b, s.c} {
				if again := must(Merge(s.t, merged, one)); s.t != wire.TypeSingleCausal && !bytes.Equal(again, merged) {
					t.Fatalf("%s: %q and again %q is %q", s.t, merged, one, again)
				}
				if s.t != wire.TypeSingleCausal && !must(Covers(s.t, merged, one)) {
					t.Fatalf("%s: %q does not cover %q", s.t, merged, one)
				}
			}
			other := must(Merge(s.t, must(Merge(s.t, s.c, s.b)), s.a))
			if s.t != wire.TypeSingleCausal && !bytes.Equal(other, merged) {
				t.Fatalf("%s: the order matters: %q, %q", s.t, merged, other)
			}
			// Where a PUT changes nothing, the key covers it; and the other way round.
			covers := must(Covers(s.t, s.a, s.b))
			same := bytes.Equal(must(Merge(s.t, s.a, s.b)), must(Canonical(s.t, s.a)))
			if same && !covers {
				t.Fatalf("%s: %q on %q changes nothing, but is not covered", s.t, s.b, s.a)
			}
		}
	}
}

func randomSet(r *rand.Rand) []byte {
	var values []string
	for range r.IntN(4) {
		values = append(values, string(rune('a'+r.IntN(5))))
	}
	return setOf(values...)
}

func randomSingle(r *rand.Rand) []byte {
	clock := wire.Clock{}
	for range r.IntN(3) {
		clock[string(rune('a'+r.IntN(2)))] = uint32(r.IntN(3))
	}
	return single(clock, string(rune('a'+r.IntN(5))))
}

func BenchmarkDigestLWW(b *testing.B) {
	payload := lww(1<<40, string(make([]byte, 100)))
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if _, err := Digest("key-000000001", wire.TypeLWW, payload); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzLattice(f *testing.F) {
	f.Add(int32(1), lww(1, "a"), lww(2, "b"))
	f.Add(int32(2), setOf("b", "a"), setOf("c"))
	f.Add(int32(4), multi(wire.Clock{"a": 1}, []wire.Version{{Key: "k", Clock: wire.Clock{"b": 1}}}, "v"), []byte("\x0a\x00"))
	f.Add(int32(6), priority(1, "a"), priority(math.NaN(), "b"))
	f.Fuzz(func(t *testing.T, number int32, a, b []byte) {
		lattice := wire.Lattice(number)
		read, err := parse(lattice, bytes.Clone(a))
		if is := canonical(lattice, a); is != (err == nil && bytes.Equal(read.bytes(lattice), a)) {
			t.Fatalf("%q is said to be canonical: %t", a, is)
		}
		if err != nil {
			return
		}
		form := must(Canonical(lattice, a))
		if again := must(Canonical(lattice, form)); !bytes.Equal(again, form) {
			t.Fatalf("%q, then %q", form, again)
		}
		if must(Digest("k", lattice, a)) != must(Digest("k", lattice, form)) {
			t.Fatal("the digest is not that of the canonical form")
		}
		if Empty(lattice, a) != Empty(lattice, form) {
			t.Fatal("empty in one form only")
		}
		merged, err := Merge(lattice, a, b)
		if err != nil {
			return
		}
		if !bytes.Equal(must(Canonical(lattice, merged)), merged) {
			t.Fatalf("a merge is not canonical: %q", merged)
		}
		if number == 1 || number == 2 || number == 5 {
			if !must(Covers(lattice, merged, b)) {
				t.Fatalf("%q with %q is %q, which does not cover it", a, b, merged)
			}
		}
	})
}
