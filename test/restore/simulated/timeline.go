package simulated

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Timeline is what happened, in order.
type Timeline struct {
	mu    sync.Mutex
	lines []entry
}

type entry struct {
	at    time.Time
	scope string // namespace; empty for what concerns all
	text  string
}

// Add notes what happened in a namespace, or, with an empty one, to all.
func (t *Timeline) Add(namespace, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, entry{time.Now(), namespace, fmt.Sprintf(format, args...)})
}

// Of is what concerns a namespace.
func (t *Timeline) Of(namespace string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, e := range t.lines {
		if e.scope == namespace || e.scope == "" {
			fmt.Fprintf(&b, "%s %s\n", e.at.Format("15:04:05.000"), e.text)
		}
	}
	return b.String()
}
