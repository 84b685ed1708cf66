package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// unread is an SSTable that the tool has failed at.
type unread struct {
	*files
	why string
}

// ofSystem is what the system says of itself, and not of a file: with more room, or on
// another machine, it would go on.
var ofSystem = []string{"No space left on device", "Too many open files", "Cannot allocate memory", "Map failed", "Read-only file system"}

// ofTool are what a Java throws that is too small, or does not have all that it needs.
var ofTool = []string{
	"OutOfMemoryError", "StackOverflowError", "NoClassDefFoundError", "ClassNotFoundException", "NoSuchMethodError", "NoSuchFieldError",
	"UnsatisfiedLinkError", "ExceptionInInitializerError", "UnsupportedClassVersionError", "IllegalAccessError", "InaccessibleObjectException",
	"ConfigurationException", "AccessDeniedException", "AccessControlException",
}

// corrupt tells whether the tool calls it damage.
func corrupt(why string) bool { return strings.Contains(why, "Corrupt") }

// tools tells whether a failure is the tool's and not the SSTable's. One without an
// exception is a Java that was killed or did not start.
func tools(why string) bool {
	name, said, _ := strings.Cut(why, ": ")
	return !strings.HasSuffix(name, "Exception") && !strings.HasSuffix(name, "Error") && !strings.HasSuffix(name, "Throwable") && !corrupt(why) ||
		slices.Contains(ofTool, name) || slices.Contains(ofSystem, said)
}

// fails notes an SSTable that the tool cannot read.
func (n *counter) fails(s *files, failure string, err error) {
	s.rows = -1
	if failure == "" {
		failure = err.Error()
	}
	n.Log.Warn("an SSTable cannot be read", "table", s.table, "sstable", s.name, "why", failure)
	n.unread = append(n.unread, unread{s, failure})
}

// judge says what is damaged of what the tool has failed at: whatever it calls corrupt;
// and whatever it fails at in reading, if it can read others of the same format. Else
// that may be one that it does not know.
func (n *counter) judge(all []*files) {
	knows := map[string]bool{}
	for _, s := range all {
		if s.rows >= 0 {
			knows[s.format()] = true
		}
	}
	notes := map[string]int{}
	for _, u := range n.unread {
		if corrupt(u.why) || knows[u.format()] && !tools(u.why) {
			n.v.Problems = append(n.v.Problems, fmt.Sprintf("%s of %s cannot be read: %s", u.name, u.table, u.why))
			continue
		}
		notes[u.why]++
	}
	for _, why := range slices.Sorted(maps.Keys(notes)) {
		n.v.Notes = append(n.v.Notes, fmt.Sprintf("%d SSTables were not counted: %s", notes[why], why))
	}
}

// format is the version of an SSTable and what it consists of, as in nb-1-big; before
// 2.2 the version stands later.
func (s *files) format() string {
	parts := strings.Split(s.name, "-")
	if len(parts) == 3 && len(parts[0]) == 2 {
		return parts[0] + "-" + parts[2]
	}
	return parts[max(0, len(parts)-2)]
}
