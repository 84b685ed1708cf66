package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stategraft/stategraft/api/node"
)

// held is what is there of a table.
type held struct {
	sstables int
	rows     int64
	counted  bool
	unread   bool // its statistics were to be read, by what has read them when the backup was made
}

// heldBy is what is there of each table.
func heldBy(all []*files) map[string]held {
	have := map[string]held{}
	for _, s := range all {
		h, ok := have[s.table]
		h.sstables++
		h.rows += max(0, s.rows)
		h.counted = (h.counted || !ok) && s.rows >= 0
		have[s.table] = h
	}
	return have
}

// compare holds what is there against what the backup counted when it was made. A table
// that was not counted then or now is not compared by its rows, but has to have its
// SSTables.
func compare(recorded *node.Contents, have map[string]held, v *node.Verified) {
	if recorded == nil {
		v.Notes = append(v.Notes, "the backup has no counts to compare with: it was made by others, or by a version before")
		return
	}
	uncounted, expected := 0, map[string]bool{}
	for _, want := range recorded.Tables {
		is, there := have[want.Table]
		expected[want.Table] = true
		if is.sstables != want.SSTables {
			v.Problems = append(v.Problems, fmt.Sprintf("%s has %d SSTables, not %d", want.Table, is.sstables, want.SSTables))
		}
		if want.Counted && is.unread {
			v.Problems = append(v.Problems, fmt.Sprintf("the statistics of %s cannot be read, and could when the backup was made", want.Table))
		}
		if !want.Counted || there && !is.counted {
			uncounted++
			continue
		}
		v.Compared++
		if is.rows != want.Rows {
			v.Differences = append(v.Differences, node.Difference{Table: want.Table, Want: want.Rows, Have: is.rows})
		}
	}
	for table := range have {
		if !expected[table] {
			v.Problems = append(v.Problems, table+" is not among what the backup counted")
		}
	}
	if uncounted > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("the rows of %d tables were not compared", uncounted))
	}
	slices.Sort(v.Problems)
	slices.SortFunc(v.Differences, func(a, b node.Difference) int { return strings.Compare(a.Table, b.Table) })
}
