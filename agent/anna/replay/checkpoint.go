package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/files"
)

// checkpoint is what a replay has done, pack by pack: it is written when every record of
// a pack was answered.
type checkpoint struct {
	ID      string            `json:"id"`
	Started time.Time         `json:"started"`
	Ended   time.Time         `json:"ended,omitzero"`
	Packs   map[string]counts `json:"packs"` // by checksum and name
	// Failures say of some keys why they were not written.
	Failures []string `json:"failures,omitempty"`
	// Lost tells that a key was not there after it was written; else they were refused.
	Lost bool `json:"lost,omitempty"`
	// Witnesses are keys that the threads were given first, by thread. Where one is gone
	// at the end, its node has started anew in between and what it had is lost.
	Witnesses map[string][]string `json:"witnesses,omitempty"`
	Rounds    int                 `json:"rounds,omitempty"` // that began from the start for this

	path string
}

// counts are those of a pack, in keys.
type counts struct {
	Keys   int64 `json:"keys"`
	Newer  int64 `json:"newer,omitempty"`
	Failed int64 `json:"failed,omitempty"`
}

func checkpointPath(dir, id string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(stage.Dir(dir, id) + ".replay.json")
}

// open reads the checkpoint, or begins one where there is none that can be read: doing
// more than is needed does no harm.
func open(dir string, s stage.Staged) (*checkpoint, error) {
	c := &checkpoint{ID: s.ID, Started: time.Now().UTC().Truncate(time.Second), path: checkpointPath(dir, s.ID)}
	if c.path != "" {
		if err := files.MakeDir(dir, 0o755, files.Owner{}); err != nil {
			return nil, err
		}
		content, err := os.ReadFile(c.path)
		var before checkpoint
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("read how far the replay was: %w", err)
		case json.Unmarshal(content, &before) == nil && before.ID == s.ID:
			before.path = c.path
			c = &before
		}
	}
	if c.Packs == nil {
		c.Packs = map[string]counts{}
	}
	if c.Witnesses == nil {
		c.Witnesses = map[string][]string{}
	}
	return c, nil
}

func (c *checkpoint) write() error {
	if c.path == "" {
		return nil
	}
	step("checkpoint")
	return files.WriteJSON(c.path, c, 0o644, files.Owner{})
}

func packID(p stage.Pack) string { return p.SHA256 + "/" + p.File }

func (c *checkpoint) done(p stage.Pack) bool { _, ok := c.Packs[packID(p)]; return ok }

// total is what the packs that are done add up to.
func (c *checkpoint) total() (sum counts) {
	for _, n := range c.Packs {
		sum.Keys += n.Keys
		sum.Newer += n.Newer
		sum.Failed += n.Failed
	}
	return sum
}

// fail notes why a key was not written, of the first such keys.
func (c *checkpoint) fail(text string) bool {
	if len(c.Failures) >= mostNamed || slices.Contains(c.Failures, text) {
		return false
	}
	c.Failures = append(c.Failures, text)
	return true
}

// witness notes a key of a thread.
func (c *checkpoint) witness(at, key string) {
	const most, longest = 4, 1000
	if len(c.Witnesses[at]) < most && len(key) < longest && len(c.Witnesses) < 10000 {
		c.Witnesses[at] = append(c.Witnesses[at], key)
	}
}

// again forgets what was done.
func (c *checkpoint) again() {
	c.Packs, c.Witnesses, c.Failures, c.Lost, c.Ended = map[string]counts{}, map[string][]string{}, nil, false, time.Time{}
	c.Rounds++
}

// Done tells whether a replay of an id ended well, by its checkpoint.
func Done(dir, id string) bool {
	content, err := os.ReadFile(checkpointPath(dir, id))
	var c checkpoint
	return err == nil && json.Unmarshal(content, &c) == nil && c.ID == id && !c.Ended.IsZero() && len(c.Failures) == 0
}

// step is called before each change of files. Tests stop there.
var step = func(string) {}
