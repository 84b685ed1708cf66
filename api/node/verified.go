package node

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// How the rows of a backup that was restored on trial were counted.
const (
	CountedByScan       = "scan"       // the database's own tool has read every one
	CountedByStatistics = "statistics" // as each SSTable says of itself
	NotCounted          = "none"       // no tool that could was found
)

// Verified is what was found in a node's part of a backup that was restored on
// trial: the termination message of the container that has looked.
type Verified struct {
	Node     string `json:"node"`
	Method   string `json:"method"` // how the rows were counted; the weakest where it differs
	Tables   int    `json:"tables"` // that have an SSTable
	SSTables int64  `json:"sstables"`
	Bytes    int64  `json:"bytes"`   // of their Data.db
	Digests  int64  `json:"digests"` // SSTables whose Data.db has the checksum that was written with it
	Rows     int64  `json:"rows"`
	// Compared is how many tables were held against the counts of the backup. Recorded
	// is false where the backup has none.
	Compared int  `json:"compared"`
	Recorded bool `json:"recorded"`

	// The first of what is wrong, and how much more there is of each.
	Differences     []Difference `json:"differences,omitempty"`
	MoreDifferences int          `json:"moreDifferences,omitempty"`
	Problems        []string     `json:"problems,omitempty"` // damage, each with its file
	MoreProblems    int          `json:"moreProblems,omitempty"`
	Notes           []string     `json:"notes,omitempty"` // what could not be looked at, and why
}

// Difference is a table that does not hold the rows that it did when the backup was
// made.
type Difference struct {
	Table string `json:"table"`
	Want  int64  `json:"want"`
	Have  int64  `json:"have"`
}

// Sound tells whether all that was looked at is as it should be.
func (v *Verified) Sound() bool {
	return len(v.Differences) == 0 && len(v.Problems) == 0 && v.MoreDifferences == 0 && v.MoreProblems == 0
}

// ErrNotVerified says that a termination message has no result in it.
var ErrNotVerified = errors.New("the message holds no result of a restore on trial")

// verifiedLimit is what kubelet keeps of a termination message, in bytes.
const verifiedLimit = 4096

// longestFinding is of one problem or note, in bytes.
const longestFinding = 240

// Encode gives the termination message: what it takes to fit is left out and counted.
func (v Verified) Encode() string {
	v.Problems, v.Notes = clipped(v.Problems), clipped(v.Notes)
	for {
		text, err := json.Marshal(v)
		if err != nil {
			panic("encoding a result: " + err.Error()) // strings and numbers only
		}
		switch {
		case len(text) <= verifiedLimit:
			return string(text)
		case len(v.Notes) > 1:
			v.Notes = v.Notes[:len(v.Notes)-1]
		case len(v.Differences) > max(1, len(v.Problems)):
			v.Differences, v.MoreDifferences = v.Differences[:len(v.Differences)-1], v.MoreDifferences+1
		case len(v.Problems) > 1:
			v.Problems, v.MoreProblems = v.Problems[:len(v.Problems)-1], v.MoreProblems+1
		default: // a name that long is none of Cassandra's, nor of Kubernetes'
			v.Node, v.Notes = clip(v.Node, longestFinding), nil
			for i := range v.Differences {
				v.Differences[i].Table = clip(v.Differences[i].Table, longestFinding)
			}
			text, _ = json.Marshal(v)
			return string(text)
		}
	}
}

// ParseVerified reads what Encode wrote. What a container leaves that failed is its log,
// and no result.
func ParseVerified(message string) (v Verified, err error) {
	if err := json.Unmarshal([]byte(strings.TrimSpace(message)), &v); err != nil || v.Node == "" || v.Method == "" {
		return Verified{}, ErrNotVerified
	}
	return v, nil
}

func clipped(list []string) []string {
	out := make([]string, 0, len(list))
	for _, text := range list {
		out = append(out, clip(text, longestFinding))
	}
	return out
}

func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
