package verify

import (
	"path/filepath"
	"strconv"
	"strings"
)

// scan reads what sstablemetadata --scan prints of SSTables that it was given in this
// order (org.apache.cassandra.tools.SSTableMetadataViewer, 4.0 to 5.0):
//
//	SSTable: /var/lib/cassandra/data/shop/orders-d8cb…/nb-1-big
//	Size: 49
//	Partitions: 2
//	Rows: 1000
//	Tombstones: 0
//	Cells: 3000
//	Widest Partitions:
//	  [key] 1
//	…
//	totalRows: 1000
//
// Before Size stand carriage returns and how far it was. 3.11 refuses --scan, and
// without it has totalRows, as all have. Keys are the users' data, may hold a line like any of these, and are
// passed over: what counts stands before them, or is that of the SSTable whose turn it is.
type scan struct {
	batch   []*files
	at      int // of batch; -1 before the first
	keys    bool
	row     bool   // Rows was said of the one at
	stats   bool   // totalRows was said of it
	failure string // the last exception at this one
}

func newScan(batch []*files) *scan { return &scan{batch: batch, at: -1} }

func (s *scan) line(text string) {
	if cut := strings.LastIndexByte(text, '\r'); cut >= 0 {
		text = text[cut+1:]
	}
	if next := s.at + 1; next < len(s.batch) {
		if said, ok := strings.CutPrefix(text, "SSTable: "); ok && isOf(strings.TrimSpace(said), s.batch[next]) {
			s.at, s.keys, s.row, s.stats, s.failure = next, false, false, false, ""
			return
		}
	}
	// What comes last says most, but of damage: that an end came too early is what it is
	// told by.
	if why := exceptionIn(text); why != "" && !corrupt(s.failure) {
		s.failure = why
	}
	if s.at < 0 {
		return
	}
	now := s.batch[s.at]
	switch {
	case strings.HasPrefix(text, "Widest Partitions:"):
		s.keys = true
	case !s.row && !s.keys && strings.HasPrefix(text, "Rows: "):
		if n, ok := number(text); ok {
			now.rows, now.scanned, s.row = n, true, true
		}
	case !s.row && !s.stats && strings.HasPrefix(text, "totalRows: "):
		if n, ok := number(text); ok {
			now.rows, s.stats = n, true
		}
	}
}

// done is how many of the batch were gone through to their end, where the tool has
// failed; the next one is what it failed at.
func (s *scan) done() int {
	if s.at < 0 {
		return 0
	}
	if s.row || s.stats {
		return s.at + 1 // what comes after the rows is read from its statistics
	}
	return s.at
}

// isOf tells whether what the tool calls an SSTable is this one. It resolves links in
// the path.
func isOf(said string, s *files) bool {
	table := filepath.Base(s.dir)
	if strings.HasPrefix(table, ".") {
		table = filepath.Join(filepath.Base(filepath.Dir(s.dir)), table)
	}
	return strings.HasSuffix(said, "/"+filepath.Join(table, s.name))
}

func number(line string) (int64, bool) {
	_, text, _ := strings.Cut(line, ": ")
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n, err == nil && n >= 0
}

// exceptionIn is what a line says of an exception, without the users' data that its
// message may have: its class, the file where it is one of ours, and what the system said.
func exceptionIn(line string) string {
	line = strings.TrimPrefix(line, "Caused by: ")
	if rest, ok := strings.CutPrefix(line, "Exception in thread "); ok {
		_, line, _ = strings.Cut(rest, "\" ")
	}
	class, message, _ := strings.Cut(line, ": ")
	if strings.ContainsAny(class, " \t=") || !strings.Contains(class, ".") {
		return ""
	}
	name := class[strings.LastIndexByte(class, '.')+1:]
	if !strings.HasSuffix(name, "Exception") && !strings.HasSuffix(name, "Error") && !strings.HasSuffix(name, "Throwable") {
		return ""
	}
	if file, ok := strings.CutPrefix(message, "Corrupted: "); ok {
		return name + " in " + filepath.Base(file)
	}
	for _, said := range ofSystem {
		if strings.HasSuffix(message, said) {
			return name + ": " + said
		}
	}
	return name
}
