package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/node"
)

// The disk tier keeps a directory for each of its threads, ebs_0 and on, below what its
// configuration calls ebs (include/kvs/server_utils.hpp).
var threadDir = regexp.MustCompile(`^ebs_[0-9]+$`)

// place is a volume with data of the disk tier.
type place struct {
	root string
	// whole tells that all of it is one thread's, whose directory is the mount point: then
	// it is the files that are moved.
	whole bool
}

// places are where the data are: the directory with the threads' directories in it, and
// each of those that is a volume of its own. There is none in the memory tier.
func places(data string) ([]place, error) {
	if data == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the disk tier's data: %w", err)
	}
	volumes := mounts()
	var all []place
	common := false
	for _, entry := range entries {
		path := filepath.Join(data, entry.Name())
		switch {
		case entry.Name() == own:
			common = true
		case !threadDir.MatchString(entry.Name()):
		case slices.Contains(volumes, path):
			all = append(all, place{path, true})
		default:
			common = true
		}
	}
	if common {
		all = append(all, place{data, false})
	}
	return all, nil
}

// own is the directory of ours on a volume.
const own = ".stategraft"

func (p place) dir() string { return filepath.Join(p.root, own, "anna") }

func (p place) previous(id string) string { return filepath.Join(p.dir(), "previous", safe(id)) }

// data are the names of what is the database's.
func (p place) data() ([]string, error) {
	entries, err := os.ReadDir(p.root)
	if err != nil {
		return nil, fmt.Errorf("look at the disk tier's data: %w", err)
	}
	var names []string
	volumes := mounts()
	for _, entry := range entries {
		name := entry.Name()
		if p.whole && name != own && name != "lost+found" ||
			!p.whole && threadDir.MatchString(name) && !slices.Contains(volumes, filepath.Join(p.root, name)) {
			names = append(names, name)
		}
	}
	return names, nil
}

// mounts are the mount points of this container. A test has its own.
var mounts = func() []string {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var points []string
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, unescape.Replace(fields[4]))
		}
	}
	return points
}

// unescape reads a path as proc(5) writes it.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// remembered is how many requests a volume remembers.
const remembered = 200

// marker is what a volume tells of what was done on it, in marker.json.
type marker struct {
	Done []mark `json:"done"` // the oldest first
	// Undoing is an undo that has set the present data aside and not finished.
	Undoing string `json:"undoing,omitempty"`
}

// mark is something that was done on a volume.
type mark struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
	Kept  bool      `json:"kept,omitempty"` // the data from before are there
	// ForRoom tells that they are only kept as long as there is room.
	ForRoom bool  `json:"forRoom,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
}

func (p place) markerPath() string { return filepath.Join(p.dir(), "marker.json") }

func (p place) read() (marker, error) {
	var m marker
	content, err := os.ReadFile(p.markerPath())
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &m)
	}
	if err != nil {
		return m, fmt.Errorf("read what was done on the volume: %w; remove %s to have it done (again)", err, p.markerPath())
	}
	return m, nil
}

func (p place) write(m marker) error {
	if extra := len(m.Done) - remembered; extra > 0 {
		m.Done = m.Done[extra:]
	}
	return files.WriteJSON(p.markerPath(), m, 0o644, files.Owner{})
}

func (m marker) find(id string) *mark {
	for i := range m.Done {
		if m.Done[i].ID == id {
			return &m.Done[i]
		}
	}
	return nil
}

// Previous are the data of the disk tier from before a restore that are kept below a
// data directory.
func Previous(data string) ([]node.Previous, error) {
	all, err := places(data)
	if err != nil {
		return nil, err
	}
	var found []node.Previous
	for _, p := range all {
		m, err := p.read()
		if err != nil {
			return found, err
		}
		for _, k := range m.Done {
			if !k.Kept {
				continue
			}
			if i := slices.IndexFunc(found, func(f node.Previous) bool { return f.ID == k.ID }); i >= 0 {
				found[i].Bytes += k.Bytes
				continue
			}
			found = append(found, node.Previous{ID: k.ID, Since: k.Since, Bytes: k.Bytes})
		}
	}
	return found, nil
}
