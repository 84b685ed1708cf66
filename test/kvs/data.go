// Package kvs holds what Anna's backup has to show: data of all of Anna's kinds in any
// number, a client that writes and verifies them, and tests that measure the sidecar
// against the plain protocol. Whole pods are in test/e2e.
//
//	data.go    the data: each value follows from its number
//	client.go  writing and verifying them through the routing tier
package kvs

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// ScaleEnv asks for the sizes that show-kvs shows, with "full"; less is for every day.
const ScaleEnv = "STATEGRAFT_KVS"

// Data are keys of mixed types, made of their numbers: who knows the fields knows every
// value.
type Data struct {
	Keys  int    `json:"keys"`
	Large int    `json:"large"` // how many of them have a value of 100 kB; the others' is of about 100 B
	Seed  uint64 `json:"seed"`
}

const (
	smallValue = 80
	largeValue = 100_000
)

// Key is the name of a number. Data of another seed have other keys.
func (d Data) Key(i int) string {
	return "key-" + strconv.FormatUint(d.Seed, 10) + "-" + strconv.Itoa(i)
}

// typeOf is the type of a number: most are LWW, as Anna's users have it.
func typeOf(i int) wire.Lattice {
	switch i % 20 {
	case 0, 1:
		return wire.TypeSet
	case 2, 3:
		return wire.TypeOrderedSet
	case 4:
		return wire.TypeSingleCausal
	case 5:
		return wire.TypeMultiCausal
	case 6:
		return wire.TypePriority
	default:
		return wire.TypeLWW
	}
}

// large tells whether a number is one of those that have much; they are spread evenly,
// over all types.
func (d Data) large(i int) bool {
	if d.Large == 0 {
		return false
	}
	// A step that shares no factor with the twenty of typeOf meets all types.
	every := max(d.Keys/d.Large, 1)
	return i%every == every/2 && i/every < d.Large
}

// Tuple is the value of a number in a version. A later version covers an earlier one:
// writing it and then the earlier one leaves the later.
func (d Data) Tuple(i, version int) wire.Tuple {
	size := smallValue
	if d.large(i) {
		size = largeValue
	}
	r := rand.New(rand.NewPCG(d.Seed, uint64(i)))
	t := wire.Tuple{Key: d.Key(i), Lattice: typeOf(i)}
	stamp := uint64(1_700_000_000_000+i%1000)*10 + uint64(version)*10_000_000
	switch t.Lattice {
	case wire.TypeLWW:
		t.Payload = wire.AppendLWW(nil, wire.LWW{Timestamp: stamp, Value: d.bytes(i, version, size)})
	case wire.TypeSet, wire.TypeOrderedSet:
		const elements = 4
		values := make([][]byte, 0, elements+version)
		for e := range elements {
			values = append(values, fill(r, size/elements))
			binary.BigEndian.PutUint16(values[e], uint16(e)) // no two the same
		}
		for v := range version {
			values = append(values, []byte(fmt.Sprintf("later %d of %d", v+1, i)))
		}
		slices.SortFunc(values, slices.Compare[[]byte])
		t.Payload = wire.AppendSet(nil, wire.Set{Values: values})
	case wire.TypeSingleCausal:
		t.Payload = wire.AppendSingleCausal(nil, wire.SingleCausal{Clock: clock(i, version), Values: [][]byte{d.bytes(i, version, size)}})
	case wire.TypeMultiCausal:
		t.Payload = wire.AppendMultiCausal(nil, wire.MultiCausal{Clock: clock(i, version), Values: [][]byte{d.bytes(i, version, size)},
			Dependencies: []wire.Version{{Key: d.Key(i / 2), Clock: wire.Clock{"a": 1}}}})
	case wire.TypePriority:
		// The lowest priority wins.
		t.Payload = wire.AppendPriority(nil, wire.Priority{Priority: float64(i%100) + 1 - float64(version), Value: d.bytes(i, version, size)})
	}
	return t
}

func clock(i, version int) wire.Clock {
	return wire.Clock{"a": uint32(i%5 + 1 + version), "b": uint32(version + 1)}
}

// bytes are a value's; half of it repeats, as data do.
func (d Data) bytes(i, version, size int) []byte {
	r := rand.New(rand.NewPCG(d.Seed+uint64(version), uint64(i)))
	return fill(r, size)
}

func fill(r *rand.Rand, size int) []byte {
	b := make([]byte, size)
	for at := 0; at+8 <= size; at += 16 {
		binary.LittleEndian.PutUint64(b[at:], r.Uint64())
	}
	return b
}
