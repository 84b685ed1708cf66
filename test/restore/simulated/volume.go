package simulated

import (
	"slices"
	"time"

	"github.com/stategraft/stategraft/api/node"
)

// Volume is a data volume. The node's lock guards it.
type Volume struct {
	// Data names what is on it: "new", or what a restore has put there. It says
	// nothing while Applying is set.
	Data string
	// Done are the restores that the marker remembers, the oldest first.
	Done []node.Done
	// Applying is the restore that has begun to replace the data and not ended.
	Applying *node.Done
	// Replaced counts, by request, how often the data were replaced to the end. It is
	// what the marker must agree with, and is not known to anybody who is tested.
	Replaced map[string]int
	// Previous are the data that were kept, by the request that replaced them.
	Previous map[string]string
	// Starts counts the starts of the database.
	Starts int
}

// NewVolume is a volume with data of its own.
func NewVolume(data string) *Volume {
	return &Volume{Data: data, Replaced: map[string]int{}, Previous: map[string]string{}}
}

// Remembers tells whether a request was done on the volume.
func (v *Volume) Remembers(id string) bool { return v.find(id) != nil }

func (v *Volume) find(id string) *node.Done {
	if i := slices.IndexFunc(v.Done, func(d node.Done) bool { return d.ID == id }); i >= 0 {
		return &v.Done[i]
	}
	return nil
}

// begin begins to replace the data: from here on they are neither the old ones nor
// the new ones.
func (v *Volume) begin(o Order, now time.Time) {
	runs := 1
	kept := o.Keep != "" && o.Keep != "Never"
	if v.Applying != nil {
		if v.Applying.ID == o.ID {
			runs = v.Applying.Runs + 1
		}
		// What the earlier one has kept is sealed; of half of the data nothing is kept.
		kept = v.Applying.ID == o.ID && v.Applying.Previous
	} else if kept {
		v.Previous[o.ID] = v.Data
	}
	v.Applying = &node.Done{ID: o.ID, Action: o.Action, Backup: o.Backup, Source: o.Source, Started: now.UTC(), Runs: runs, Previous: kept}
}

// complete makes the new data durable, and remembers it.
func (v *Volume) complete(o Order, bytes int64, now time.Time) node.Done {
	done := *v.Applying
	done.Finished, done.Bytes, done.Tables = now.UTC(), bytes, 3
	v.Data = o.result(v)
	v.Done = append(v.Done, done)
	v.Applying = nil
	v.Replaced[o.ID]++
	return done
}

func (v *Volume) kept() []node.Previous {
	var kept []node.Previous
	for id := range v.Previous {
		kept = append(kept, node.Previous{ID: id})
	}
	slices.SortFunc(kept, func(a, b node.Previous) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return kept
}
