package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stategraft/stategraft/agent/files"
)

// undo puts the data from before a restore back, and keeps those that it finds in their
// place as the data from before itself. It can be stopped anywhere like setAside.
func undo(data, id, of string, keep func(p place) keeping) (kept bool, err error) {
	all, err := places(data)
	if err != nil {
		return false, err
	}
	found := false
	var others []string
	for _, p := range all {
		m, err := p.read()
		if err != nil {
			return kept, err
		}
		if done := m.find(id); done != nil {
			if err := p.prune(m); err != nil {
				return kept, err
			}
			found, kept = true, kept || done.Kept
			continue
		}
		// Without a mark the restore was stopped while it set them aside.
		from, half := m.find(of), !empty(p.previous(of))
		if !(from == nil && half) && (from == nil || !from.Kept) && m.Undoing != id {
			for _, k := range m.Done {
				if k.Kept {
					others = append(others, k.ID)
				}
			}
			continue
		}
		found = true
		done, err := p.undo(m, id, of, keep(p))
		if err != nil {
			return kept, fmt.Errorf("put the data from before %s back: %w", of, err)
		}
		kept = kept || done.Kept
	}
	if !found {
		return false, fmt.Errorf("%s cannot be undone: the data from before it are not on this pod's volume, which keeps those from before: %s", of, listed(others))
	}
	return kept, nil
}

func (p place) undo(m marker, id, of string, keep keeping) (*mark, error) {
	if m.Undoing != id {
		step("undo")
		// Of data that are half set aside the other half stands in its place.
		if m.find(of) != nil {
			if _, err := p.move(id); err != nil {
				return nil, err
			}
		}
		m.Undoing = id
		step("undoing")
		if err := p.write(m); err != nil {
			return nil, err
		}
	}
	from := p.previous(of)
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if strings.Contains(entry.Name(), again) && threadDir.MatchString(strings.SplitN(entry.Name(), again, 2)[0]) {
			continue // of a later time
		}
		to := filepath.Join(p.root, entry.Name())
		if bare(to) {
			step("remove") // made by the setup container
			if err := os.RemoveAll(to); err != nil {
				return nil, err
			}
		}
		step("back")
		if err := os.Rename(filepath.Join(from, entry.Name()), to); err != nil {
			return nil, err
		}
	}
	if err := files.SyncDir(p.root); err != nil {
		return nil, err
	}
	m.Undoing = ""
	return p.finish(m, mark{ID: id}, keep)
}
