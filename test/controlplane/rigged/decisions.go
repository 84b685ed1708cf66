package rigged

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Decision is a line of the webhook's log about a pod.
type Decision struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	RequestID string `json:"requestID"`
	Decision  string `json:"decision"`
	Reason    string `json:"reason"`
	Kind      string `json:"kind"`
	Message   string `json:"message"`
}

// logWriter takes the process's output.
type logWriter Webhook

func (l *logWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

// Log is everything that the webhook wrote, over all its starts.
func (w *Webhook) Log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// Decisions are those on pods of a namespace, the oldest first.
func (w *Webhook) Decisions(namespace string) []Decision {
	var found []Decision
	for line := range bytes.Lines([]byte(w.Log())) {
		var entry struct {
			Text string `json:"msg"`
			Decision
		}
		if json.Unmarshal(line, &entry) == nil && entry.Text == "pod decided" && entry.Namespace == namespace {
			found = append(found, entry.Decision)
		}
	}
	return found
}

// tail is the end of the log, for an error. A line for each time that we asked
// whether it is ready says nothing.
func (w *Webhook) tail() string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimRight(w.Log(), "\n"), "\n"), func(line string) bool {
		return strings.Contains(line, "healthz check failed")
	})
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
