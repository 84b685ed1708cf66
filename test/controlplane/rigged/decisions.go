package rigged

import (
	"bytes"
	"encoding/json"
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
