package backup

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/stategraft/stategraft/agent/anna/manifest"
)

// missing collects the keys that could not be read, and those that have no value.
type missing struct {
	mutex sync.Mutex
	found manifest.Missing

	hollow int64
	names  []string // of the first of those
}

// mostHollow is how many keys without a value are named.
const mostHollow = 10

// empty notes a key of the disk tier of which there is nothing but its type: an empty value
// looks there as a torn file does, and one that could not be written.
func (m *missing) empty(key string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.hollow++; len(m.names) < mostHollow {
		m.names = append(m.names, printable(key))
	}
}

// notes are for the manifest, which is readable by all who see the storage.
func (m *missing) notes(encrypted bool) []string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.hollow == 0 {
		return nil
	}
	note := fmt.Sprintf("%d keys have no value on the disk tier, and none in the backup: it is empty, or its file was torn or could not be written, which Anna does not tell apart", m.hollow)
	if !encrypted {
		note += "; the first: " + strings.Join(m.names, ", ")
	}
	return []string{note}
}

func (m *missing) add(key, reason string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.found.Count++
	if len(m.found.Keys) < manifest.MissingKeys {
		m.found.Keys = append(m.found.Keys, manifest.MissingKey{Key: printable(key), Reason: strings.Clone(reason)})
	}
}

// longestKey is how much of a key is shown, in bytes.
const longestKey = 256

// printable is the key, or a Go string of it where that would not show what it is.
func printable(key string) string {
	shown := key[:min(len(key), longestKey)]
	if key == "" || len(key) > longestKey || !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		shown = strconv.Quote(shown)
	}
	if len(key) > longestKey {
		shown += "…"
	}
	return strings.Clone(shown)
}
