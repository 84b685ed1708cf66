package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stategraft/stategraft/agent/files"
)

// The names in a directory with a staged backup.
const (
	stagedName = "staged.json" // written last: with it all is there
	packEnding = ".records"
	packSide   = ".json" // beside a file of records: what it is of
	// replayedName is left when all was replayed and the rest was removed.
	replayedName = "replayed.json"
)

// ErrNotStaged says that a directory holds no staged backup, or not all of it yet.
var ErrNotStaged = errors.New("no backup is staged there")

// Staged is a backup, or a part of one, that was fetched and verified and waits to be
// replayed. It is what staged.json holds.
type Staged struct {
	ID      string    `json:"id"` // of what asked for it, as in node.Done
	Backup  string    `json:"backup"`
	Sources []string  `json:"sources"` // nodes of the backup whose parts these are; none is right too
	Packs   []Pack    `json:"packs"`   // in the order in which they are replayed
	Keys    int64     `json:"keys"`    // records of all packs
	Bytes   int64     `json:"bytes"`   // of their keys and payloads
	Since   time.Time `json:"since"`
	// Missing is the number of keys that the parts lack: their manifests name them.
	Missing int64 `json:"missing,omitempty"`
	// Folders are those of all parts of the backup, for a pod of the disk tier: keys of
	// others come to it.
	Folders []string `json:"folders,omitempty"`

	Dir string `json:"-"` // where it is
}

// Pack is a file of records in a staged backup.
type Pack struct {
	File   string `json:"file"`   // its name in the directory
	Node   string `json:"node"`   // whose part it is of
	Object string `json:"object"` // of the storage, that it was made of
	SHA256 string `json:"sha256"` // of the file, in hexadecimal
	Of     string `json:"of"`     // of the object and of the records used of it: another one is another pack
	Keys   int64  `json:"keys"`
	Bytes  int64  `json:"bytes"`
	// Folders are the directories that the disk tier needs for the keys of the pack that
	// have a slash in them (Anna makes none and loses such keys without a word); a
	// thousand of them at most.
	Folders []string `json:"folders,omitempty"`
}

// Read reads what is staged in a directory. It does not read the packs.
func Read(dir string) (Staged, error) {
	var s Staged
	content, err := os.ReadFile(filepath.Join(dir, stagedName))
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("%s: %w", dir, ErrNotStaged)
	}
	if err == nil {
		err = json.Unmarshal(content, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read what is staged in %s: %w", dir, err)
	}
	s.Dir = dir
	return s, nil
}

// All reads what is staged below a directory, by the names of the directories.
func All(root string) ([]Staged, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for what is staged: %w", err)
	}
	var all []Staged
	for _, entry := range entries {
		s, err := Read(filepath.Join(root, entry.Name()))
		if errors.Is(err, ErrNotStaged) || !entry.IsDir() {
			continue // not finished
		}
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Dir is where what an id asks for is staged.
func Dir(root, id string) string { return filepath.Join(root, safe(id)) }

// safe makes a name for a file or directory of an id. A digest keeps two apart that
// would become the same.
func safe(id string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		}
		return '-'
	}, id)
	name = strings.TrimLeft(name[:min(len(name), 100)], ".")
	if name == id {
		return name
	}
	return name + "-" + digest(id)[:8]
}

// Write makes the directory one with a staged backup: the packs are there.
func (s Staged) Write() error {
	return files.WriteJSON(filepath.Join(s.Dir, stagedName), s, 0o644, files.Owner{})
}

// replayed is what replayed.json holds.
type replayed struct {
	Staged
	Finished time.Time `json:"finished"`
}

// Remove removes what is staged when it was replayed, and leaves a note of that: the
// restore container runs again when the pod's node has been restarted, and is not to ask
// for a backup that may be gone then.
func (s Staged) Remove() error {
	note := replayed{s, time.Now().UTC().Truncate(time.Second)}
	note.Packs = nil
	if err := files.WriteJSON(filepath.Join(s.Dir, replayedName), note, 0o644, files.Owner{}); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return fmt.Errorf("remove what was replayed: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == replayedName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.Dir, entry.Name())); err != nil {
			return fmt.Errorf("remove what was replayed: %w", err)
		}
	}
	return nil
}

// readReplayed gives the note of Remove, if there is one.
func readReplayed(dir, id string) (replayed, bool) {
	var note replayed
	content, err := os.ReadFile(filepath.Join(dir, replayedName))
	return note, err == nil && json.Unmarshal(content, &note) == nil && note.ID == id
}
