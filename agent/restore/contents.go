package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/node"
)

// leaveContents leaves what was counted when the backup was made for the container that
// compares it with what was restored. That of another backup does not stay.
func (c Config) leaveContents(contents *node.Contents) error {
	if c.ContentsFile == "" {
		return nil
	}
	if contents != nil {
		return files.WriteJSON(c.ContentsFile, contents, 0o644, files.Owner{})
	}
	if err := os.Remove(c.ContentsFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove another backup's counts: %w", err)
	}
	c.Log.Warn("the backup has no counts", "backup", c.Backup)
	return nil
}
