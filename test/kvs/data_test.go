package kvs

import (
	"testing"

	"github.com/stategraft/stategraft/agent/anna/lattice"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// The data are of every type, the large ones too, are as many large ones as they say,
// and a later version covers the one before it, and not the other way round.
func TestData(t *testing.T) {
	for _, d := range []Data{{Keys: 1000, Large: 50, Seed: 1}, {Keys: 997, Large: 1, Seed: 2}, {Keys: 20}} {
		types, large := map[wire.Lattice]int{}, 0
		for i := range d.Keys {
			old, now := d.Tuple(i, 0), d.Tuple(i, 1)
			types[old.Lattice]++
			if len(old.Payload) > largeValue/2 {
				large++
			}
			if size := len(old.Payload); !d.large(i) && (size < 60 || size > 200) {
				t.Errorf("%+v: number %d has %d bytes", d, i, size)
			}
			if same, err := equal(old, d.Tuple(i, 0)); err != nil || !same {
				t.Fatalf("number %d is not the same twice: %v", i, err)
			}
			if same, err := equal(old, now); err != nil || same {
				t.Errorf("number %d has one value in two versions: %v", i, err)
			}
			for _, c := range []struct {
				have, want wire.Tuple
				is         bool
			}{{now, old, true}, {old, now, false}} {
				if is, err := lattice.Covers(old.Lattice, c.have.Payload, c.want.Payload); err != nil || is != c.is {
					t.Errorf("number %d, %s: covers is %t, want %t (%v)", i, old.Lattice, is, c.is, err)
				}
			}
		}
		if large != d.Large || len(types) != 6 {
			t.Errorf("%+v: %d large ones, of %d types: %v", d, large, len(types), types)
		}
	}
}
