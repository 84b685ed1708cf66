package node

import "time"

// The phases of a backup that runs.
const (
	Preparing = "preparing" // schema and token map are asked for, the snapshot is taken
	Uploading = "uploading" // the snapshot is there
	Finishing = "finishing" // all files are in the storage
)

// Running is a backup that Medusa makes now.
type Running struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	Phase string    `json:"phase,omitempty"`
}

// Failed is a backup that a sidecar has given up, until it is discarded, deleted or made anew.
type Failed struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
	Why  string    `json:"why"` // for people; no secret is in it
}

// WhyFailed is why the node has given up a backup, where it still knows.
func (r *Report) WhyFailed(backup string) string {
	for _, f := range r.Failed {
		if f.Name == backup {
			return f.Why
		}
	}
	return ""
}

// Discarded is what a node has removed of its part in a backup. Nothing is an answer
// too: there was none.
type Discarded struct {
	Node    string `json:"node"`
	Name    string `json:"name"`
	Objects int    `json:"objects"`
}

// ContentsVersion is the version of Contents that is written.
const ContentsVersion = 1

// Contents is what was counted of a node's part in a backup when that was made, from
// what the database's own files say of themselves. It is in the storage, beside the
// manifest, as meta/stategraft.json.
type Contents struct {
	Version int     `json:"version"`
	Tables  []Table `json:"tables"` // by name
}

// Table is a table's part in it.
type Table struct {
	Table    string `json:"table"`    // keyspace.name; of a secondary index, with .index after it
	SSTables int    `json:"sstables"` // those that have a Data.db
	Bytes    int64  `json:"bytes"`    // of all their files
	// Rows are those of all SSTables together, so one that stands in two of them
	// counts twice. It is right only where Counted is true.
	Rows    int64 `json:"rows"`
	Counted bool  `json:"counted"` // of every SSTable it is known
}

// Table finds a table's.
func (c *Contents) Table(name string) (Table, bool) {
	for _, t := range c.Tables {
		if t.Table == name {
			return t, true
		}
	}
	return Table{}, false
}
