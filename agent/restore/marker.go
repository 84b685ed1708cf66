package restore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stategraft/stategraft/agent/files"
)

// The outcomes that a marker knows. A restore that was refused, or failed while
// it still downloaded, leaves none: the data are what they were.
const (
	Applying = "applying" // the data are being replaced; not to be started with
	Done     = "done"
)

// Marker is what <data volume>/.stategraft/restore.json tells of the last
// restore that touched the data. It is on the data volume so that it lives and
// dies with them.
type Marker struct {
	ID       string    `json:"id"` // what was asked for: backup, and source where it is not the pod itself
	Backup   string    `json:"backup"`
	Source   string    `json:"source"` // node of the backup
	Outcome  string    `json:"outcome"`
	Try      string    `json:"try"` // tells one run from another
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	Bytes    int64     `json:"bytes"`
	Tables   int       `json:"tables"`
}

// Dir is where the agent keeps its files on the data volume.
func Dir(mount string) string { return filepath.Join(mount, ".stategraft") }

func markerPath(mount string) string { return filepath.Join(Dir(mount), "restore.json") }

// nextPath is the marker that takes the other's place once the data change.
func nextPath(mount string) string { return filepath.Join(Dir(mount), "restore.next.json") }

// ReadMarker reads the marker of a data volume. A volume without one gives the
// zero value.
func ReadMarker(mount string) (Marker, error) {
	var m Marker
	content, err := os.ReadFile(markerPath(mount))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &m)
	}
	if err != nil {
		return m, fmt.Errorf("read the marker of the last restore: %w", err)
	}
	return m, nil
}

func (m Marker) write(path string) error {
	return files.WriteJSON(path, m, 0o644, files.Owner{})
}
