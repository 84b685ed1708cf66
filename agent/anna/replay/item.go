package replay

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/stategraft/stategraft/agent/anna/lattice"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// item is a record on its way.
type item struct {
	stage.Record
	pack  *packState
	last  bool      // no record, but the end of its pack
	check bool      // it is read back
	tries int       // for whatever reason
	lost  int       // of them: it was written and not there
	due   time.Time // of the next
}

// packState is a pack on its way.
type packState struct {
	of stage.Pack
	counts
	open int  // records that are not answered
	read bool // there are no more
}

// overhead is what an item takes besides its record, in bytes.
const overhead = 256

func (it *item) size() int64 { return it.Size() + overhead }

var seed = maphash.MakeSeed()

// choose gives one of the owners, another one at each try: each passes it on to the rest.
func (it *item) choose(owners []string) string {
	return owners[(maphash.String(seed, it.Key)+uint64(it.tries))%uint64(len(owners))]
}

func (it *item) tuple() wire.Tuple {
	return wire.Tuple{Key: it.Key, Lattice: it.Lattice, Payload: it.Payload}
}

// verdict is what a look at a key gives.
type verdict int

const (
	same    verdict = iota // as it was written
	newer                  // with what came later
	missing                // not there, or older
	foreign                // of another type
	unclear                // nobody said
)

// judge compares what the cluster has with what was written.
func (it *item) judge(found wire.Tuple) (verdict, error) {
	switch {
	case found.Error != wire.NoError && found.Error != wire.KeyDNE:
		return unclear, nil
	case found.Error == wire.KeyDNE && len(found.Payload) == 0 && lattice.Empty(it.Lattice, it.Payload):
		return same, nil // as Anna shows it; the disk tier with the type
	case found.Lattice == wire.None && len(found.Payload) == 0:
		return missing, nil
	case found.Lattice != it.Lattice:
		return foreign, nil
	case bytes.Equal(found.Payload, it.Payload):
		return same, nil
	}
	have, err := lattice.Canonical(it.Lattice, found.Payload)
	if err != nil {
		return unclear, fmt.Errorf("key %.100q as the cluster has it: %w", it.Key, err)
	}
	want, err := lattice.Canonical(it.Lattice, it.Payload)
	if err != nil {
		return unclear, fmt.Errorf("key %.100q in the backup: %w", it.Key, err)
	}
	if bytes.Equal(have, want) {
		return same, nil
	}
	covered, err := lattice.Covers(it.Lattice, found.Payload, it.Payload)
	if err != nil || !covered {
		return missing, err
	}
	return newer, nil
}
