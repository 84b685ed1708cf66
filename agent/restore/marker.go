package restore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/node"
)

// The outcomes that a marker knows. A restore that was refused, or failed while
// it still downloaded, leaves none: the data are what they were.
const (
	Applying = "applying" // the data are being replaced; not to be started with
	Finished = "done"
)

// remembered is how many requests a volume remembers.
const remembered = 200

// Marker is what <data volume>/.stategraft/restore.json tells of the restores
// that touched the data. It is on the data volume so that it lives and dies with
// them.
//
// It holds two memories that do not disturb one another: what a template asked
// for, of which the last counts, and the requests of Restore objects.
type Marker struct {
	// The last restore that a template asked for.
	ID       string    `json:"id"` // backup, and source where it is not the pod itself
	Backup   string    `json:"backup"`
	Source   string    `json:"source"` // node of the backup
	Outcome  string    `json:"outcome"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	Bytes    int64     `json:"bytes"`
	Tables   int       `json:"tables"`
	Runs     int       `json:"runs,omitempty"`

	// Requests are those of Restore objects that are done, the oldest first.
	Requests []node.Done `json:"requests,omitempty"`

	// Doing is what began to replace the data and has not finished.
	Doing *Doing `json:"doing,omitempty"`
	// Kept are the data from before the restore that finished last.
	Kept *Kept `json:"kept,omitempty"`
	// Begun counts, for what has not finished, how often it began to replace the data.
	Begun map[string]int `json:"begun,omitempty"`
}

// Doing is a restore that replaces the data.
type Doing struct {
	ID      string    `json:"id"`
	Request bool      `json:"request"` // of an object, not of a template
	Action  string    `json:"action,omitempty"`
	Started time.Time `json:"started"`
	// Kept are the data from before, nil where they are not kept.
	Kept *Kept `json:"kept,omitempty"`
	// From are, in an undo, the data that come back. They stay until it has finished.
	From *Kept `json:"from,omitempty"`
}

// whole are the data that can be gone back to: those from before it, else, in an undo
// of what was itself half done, those that come back. What is in place is half
// replaced.
func (d *Doing) whole() *Kept { return cmp.Or(d.Kept, d.From) }

// Kept are data that were set aside. The marker alone says whose they are: a
// directory that it does not name is rubbish.
type Kept struct {
	ID    string    `json:"id"`  // of the restore that replaced them
	Dir   string    `json:"dir"` // its name below previous
	Since time.Time `json:"since"`
	Bytes int64     `json:"bytes"` // of the files that nothing else uses any more
	Mode  string    `json:"mode"`  // IfRoom or Always
}

// as gives the same data as those from before another restore.
func (k *Kept) as(id string) *Kept {
	if k == nil {
		return nil
	}
	other := *k
	other.ID = id
	return &other
}

// Dir is where the agent keeps its files on the data volume.
func Dir(mount string) string { return filepath.Join(mount, own) }

func markerPath(mount string) string { return filepath.Join(Dir(mount), "restore.json") }

// ReadMarker reads the marker of a data volume. A volume without one gives what is
// kept on it alone. One that was written before there were requests is brought up to
// date.
func ReadMarker(mount string) (Marker, error) {
	var m Marker
	content, err := os.ReadFile(markerPath(mount))
	if errors.Is(err, fs.ErrNotExist) {
		m.Kept = adopted(mount)
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &m)
	}
	if err != nil {
		return m, fmt.Errorf("read the marker of the last restore: %w", err)
	}
	if m.Outcome == Applying && m.Doing == nil {
		m.Doing = &Doing{ID: m.ID, Action: actionRestore, Started: m.Started}
	}
	return m, nil
}

func (m Marker) write(mount string) error {
	return files.WriteJSON(markerPath(mount), m, 0o644, files.Owner{})
}

// done finds what is asked for among what is done, each memory for its own.
func (m Marker) done(id string, request bool) (node.Done, bool) {
	if request {
		i := slices.IndexFunc(m.Requests, func(d node.Done) bool { return d.ID == id })
		if i < 0 {
			return node.Done{}, false
		}
		return m.Requests[i], true
	}
	if d, ok := m.template(); ok && d.ID == id {
		return d, true
	}
	return node.Done{}, false
}

// template is the restore that the template asked for, if it is done.
func (m Marker) template() (node.Done, bool) {
	return node.Done{ID: m.ID, Backup: m.Backup, Source: m.Source, Started: m.Started, Finished: m.Finished,
		Bytes: m.Bytes, Tables: m.Tables, Runs: m.Runs}, m.Outcome == Finished
}

// begun is the marker while d replaces the data. Of a template's restore that d
// interrupts nothing is left to say.
func (m Marker) begun(d Doing, as node.Done) Marker {
	m.Begun = maps.Clone(m.Begun)
	if len(m.Begun) >= remembered || m.Begun == nil {
		m.Begun = map[string]int{d.ID: m.Begun[d.ID]}
	}
	m.Begun[d.ID]++
	m.Doing = &d
	if !d.Request {
		m.ID, m.Backup, m.Source, m.Outcome = as.ID, as.Backup, as.Source, Applying
		m.Started, m.Finished, m.Bytes, m.Tables = as.Started, time.Time{}, as.Bytes, as.Tables
	} else if m.Outcome == Applying {
		m = m.forgotten()
	}
	return m
}

// forgotten is the marker without what a template asked for.
func (m Marker) forgotten() Marker {
	m.ID, m.Backup, m.Source, m.Outcome = "", "", "", ""
	m.Started, m.Finished, m.Bytes, m.Tables, m.Runs = time.Time{}, time.Time{}, 0, 0, 0
	return m
}

// finished is the marker when what it was doing is done.
func (m Marker) finished(done node.Done, kept *Kept) Marker {
	if m.Doing.Request {
		m.Requests = append(slices.Clone(m.Requests), done)
		if extra := len(m.Requests) - remembered; extra > 0 {
			m.Requests = m.Requests[extra:]
		}
	} else {
		m.Outcome, m.Finished, m.Runs = Finished, done.Finished, done.Runs
	}
	m.Begun = maps.Clone(m.Begun)
	delete(m.Begun, done.ID)
	m.Doing, m.Kept = nil, kept
	return m
}

// kept are the data that the marker names, those of what it is doing first.
func (m Marker) kept() []*Kept {
	var all []*Kept
	if m.Doing != nil {
		all = append(all, m.Doing.Kept, m.Doing.From)
	}
	return slices.DeleteFunc(append(all, m.Kept), func(k *Kept) bool { return k == nil })
}

// names tells whether a directory with kept data is one of the marker's.
func (m Marker) names(dir string) bool {
	return slices.ContainsFunc(m.kept(), func(k *Kept) bool { return k.Dir == dir })
}

// Done are the restores that were done on a volume, the template's first.
func Done(mount string) ([]node.Done, error) {
	m, err := ReadMarker(mount)
	if err != nil {
		return nil, err
	}
	var done []node.Done
	if d, ok := m.template(); ok {
		done = append(done, d)
	}
	return append(done, m.Requests...), nil
}

// nextPath is where an agent before the requests had the marker of a running
// restore.
func nextPath(mount string) string { return filepath.Join(Dir(mount), "restore.next.json") }
