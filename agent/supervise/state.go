package supervise

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/stategraft/stategraft/agent/files"
)

// The states that the supervisor is in.
const (
	Waiting  = "waiting"  // for a complete configuration
	Running  = "running"  // Medusa runs
	Backoff  = "backoff"  // Medusa died and is started again in a while
	Degraded = "degraded" // there is no Medusa to run
	Stopping = "stopping" // the container is asked to end
)

// State is what run/medusa.json tells.
type State struct {
	State    string    `json:"state"`
	Reason   string    `json:"reason,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Backup   bool      `json:"backup"`   // a backup is running
	Restarts int       `json:"restarts"` // after a death, since the container started
	Since    time.Time `json:"since"`    // of the state
	Updated  time.Time `json:"updated"`
}

// fresh is how old a state may be to be believed: one that says a backup is
// running is renewed all the time.
const fresh = 10 * time.Second

// Busy tells whether a state file says that a backup is running. One that a
// killed supervisor left behind does not count.
func Busy(path string) bool {
	content, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	var s State
	return json.Unmarshal(content, &s) == nil && s.Backup && time.Since(s.Updated) < fresh
}

// renew is how often a state with a running backup is written again.
const renew = 2 * time.Second

// tell changes the state and writes it where it differs.
func (s *supervisor) tell(change func(*State)) {
	next := s.state
	change(&next)
	now := time.Now().UTC()
	if next.State != s.state.State {
		next.Since = now
	}
	old := next.Backup && now.Sub(s.state.Updated) > renew
	if next == s.state && !old {
		return
	}
	next.Updated = now
	s.state = next
	err := files.MakeDir(filepath.Dir(s.StatePath), 0o755, files.Owner{})
	if err == nil {
		err = files.WriteJSON(s.StatePath, next, 0o644, files.Owner{})
	}
	if err != nil {
		s.Log.Warn("the state cannot be written", "error", err.Error())
	}
}
