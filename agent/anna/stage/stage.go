// Package stage is the init container that prepares the restore of an Anna node before
// it starts. Anna reads nothing back from its files, so what is restored is written to
// the running cluster by the sidecar (agent/anna/replay); here the backup is fetched and
// verified to the last record first, and a node of which anything is missing does not
// start. The disk tier's files from before are set aside: a replay would be merged with
// them.
//
//	stage.go    the course of it
//	command.go  the container: its environment and what it tells
//	choose.go   whose parts of the backup a pod takes
//	fetch.go    from the storage to the pod's emptyDir
//	staged.go   what is there then
//	records.go  the files with the records
//	places.go   where the disk tier's data are, and what their volumes remember
//	aside.go    setting them aside
//	folders.go  the directories that their place needs for keys
//	undo.go     putting them back
//	tidy.go     removing them in the end
//	cause.go    whose fault a failure is
package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/node"
)

// What Config.Action may be.
const (
	actionRestore = "restore"
	actionEmpty   = "empty"
	actionUndo    = "undo"
)

// What Config.Keep may be.
const (
	keepAlways = "Always"
	keepIfRoom = "IfRoom"
	keepNever  = "Never"
)

// Config is what the container's environment says.
type Config struct {
	ID     string // of the request; empty where the template asks
	Action string // restore, where it is empty
	Backup string // name of the backup to restore
	Source string // nodes of the backup, with commas between; see Who
	Undo   string // ID of the request to undo
	Keep   string // Always, IfRoom, Never; empty for Never

	PodName       string
	DataDirectory string // of the disk tier; empty in the memory tier
	Root          string // for what is staged, on an emptyDir of the pod

	// Open reaches the storage. It is not called where nothing of it is needed.
	Open       func(context.Context) (Source, error) `json:"-"`
	Identities []age.Identity                        `json:"-"` // to read encrypted backups with
	Gone       func(context.Context, string) bool    `json:"-"` // see Who

	Tell func(node.Progress) `json:"-"` // told when something has changed; may be nil
	Log  *slog.Logger
}

// id names what is asked for, as in node.Done: of a template, a restore from other nodes
// is another restore.
func (c Config) id() string {
	switch {
	case c.ID != "":
		return c.ID
	case c.Source == "" || c.Source == c.PodName:
		return c.Backup
	}
	return c.Backup + "@" + c.Source
}

// request tells whether an object asks, not the template.
func (c Config) request() bool { return c.ID != "" }

// First is what there is to tell before anything is looked at.
func (c Config) First() node.Progress {
	return node.Progress{ID: c.id(), Phase: node.LookingUp, Started: time.Now().UTC().Truncate(time.Second)}
}

// Run does what is asked for. Called again, it does what is left of it. The text says how
// it went, for people, in one line; the keys are not in the cluster yet then.
func Run(ctx context.Context, c Config) (text string, done node.Done, err error) {
	if c.Action == "" {
		c.Action = actionRestore
	}
	if c.Keep == "" || !c.request() {
		c.Keep = keepNever // nobody would tidy up after a template's restore
	}
	if err := c.usable(); err != nil {
		return "", done, err
	}
	j := &job{Config: c, first: c.First()}
	switch c.Action {
	case actionEmpty:
		return j.empty(ctx)
	case actionUndo:
		return j.undo()
	}
	return j.restore(ctx)
}

func (c Config) usable() error {
	switch {
	case c.Action != actionRestore && c.Action != actionEmpty && c.Action != actionUndo:
		return fmt.Errorf("STATEGRAFT_RESTORE_ACTION is %q, which this agent does not know", c.Action)
	case c.Keep != keepAlways && c.Keep != keepIfRoom && c.Keep != keepNever:
		return fmt.Errorf("STATEGRAFT_KEEP_PREVIOUS is %q, which this agent does not know", c.Keep)
	case c.Action == actionRestore && c.Backup == "":
		return errors.New("no backup is named (STATEGRAFT_BACKUP is empty)")
	case c.Action != actionRestore && c.ID == "":
		return errors.New("STATEGRAFT_RESTORE_ID is empty")
	case c.Action == actionUndo && c.Undo == "":
		return errors.New("STATEGRAFT_RESTORE_UNDO is empty")
	case c.Action == actionRestore && c.Source == "" && c.PodName == "":
		return errors.New("the pod's name is not known (POD_NAME is empty)")
	}
	return nil
}

// job is one run of what is asked for.
type job struct {
	Config
	first node.Progress
	notes string // for the text, each with "; " before it
}

func (j *job) note(text string) {
	if text != "" {
		j.notes += "; " + text
		j.Log.Info(text)
	}
}

func (j *job) phase(phase string, bytes, total int64) {
	if j.Tell != nil {
		p := j.first
		p.Phase, p.Bytes, p.BytesTotal = phase, bytes, total
		j.Tell(p)
	}
}

// restore stages a backup, and sets aside what it replaces.
func (j *job) restore(ctx context.Context) (string, node.Done, error) {
	var none node.Done
	j.phase(node.LookingUp, 0, 0)
	if note, ok := readReplayed(Dir(j.Root, j.id()), j.id()); ok {
		return j.again(note)
	}
	s, err := j.stage(ctx)
	if err != nil {
		return "", none, err
	}
	kept, err := j.replace(s)
	if err != nil {
		return "", none, err
	}
	if s.Missing > 0 {
		j.note(fmt.Sprintf("%d keys are not in the backup, though the nodes listed them: its manifests name them", s.Missing))
	}
	done := j.done(kept)
	done.Backup, done.Source, done.Bytes = j.Backup, strings.Join(s.Sources, ","), s.Bytes
	j.phase(node.Finished, s.Bytes, s.Bytes)
	j.Log.Info("staged", "id", done.ID, "backup", j.Backup, "sources", s.Sources, "keys", s.Keys, "bytes", s.Bytes, "packs", len(s.Packs), "previous_kept", kept)
	text := fmt.Sprintf("staged backup %s of node %s: %d keys, %d bytes, to be written when the cluster is there", j.Backup, listed(s.Sources), s.Keys, s.Bytes)
	if len(s.Sources) == 0 {
		text = fmt.Sprintf("nothing of backup %s is to be written by this pod", j.Backup)
	}
	return text + j.notes, done, nil
}

// again is what was done in this pod already, to the last key. Its data directories stay as
// they are.
func (j *job) again(note replayed) (string, node.Done, error) {
	j.phase(node.Finished, note.Bytes, note.Bytes)
	previous, err := Previous(j.DataDirectory)
	if err != nil {
		j.note(err.Error())
	}
	done := j.done(slices.ContainsFunc(previous, func(p node.Previous) bool { return p.ID == j.id() }))
	done.Backup, done.Source, done.Bytes, done.Finished = note.Backup, strings.Join(note.Sources, ","), note.Bytes, note.Finished
	return fmt.Sprintf("backup %s was restored at %s already: nothing to do", note.Backup, note.Finished.Format(time.RFC3339)) + j.notes, done, nil
}

// stage gives what is staged, which may be so already.
func (j *job) stage(ctx context.Context) (Staged, error) {
	dir := Dir(j.Root, j.id())
	if s, err := Read(dir); err == nil && s.ID == j.id() && s.whole() == nil {
		j.Log.Info("the backup is staged already", "id", s.ID)
		return s, nil
	}
	from, err := j.Open(ctx)
	if err != nil {
		return Staged{}, fmt.Errorf("open the storage of the backups: %w", err)
	}
	nodes, note, err := Choose(ctx, from, j.Backup, Who{Name: j.PodName, Source: j.Source, Request: j.request(), Gone: j.Gone})
	if err != nil {
		return Staged{}, err
	}
	j.note(note)
	into := Staged{ID: j.id(), Backup: j.Backup, Sources: nodes, Dir: dir}
	if j.DataDirectory != "" {
		if into.Folders, err = foldersOf(ctx, from, j.Backup, j.Identities); err != nil {
			return Staged{}, err
		}
	}
	return fetch(ctx, from, into, j.Identities, func(bytes, total int64) {
		j.phase(node.Downloading, bytes, total)
	})
}

// whole reads all packs once.
func (s Staged) whole() error {
	for _, p := range s.Packs {
		if err := p.verify(s.Dir); err != nil {
			return err
		}
	}
	return nil
}

// replace sets the data from before aside, and makes the directories for the keys that
// come.
func (j *job) replace(s Staged) (kept bool, err error) {
	j.phase(node.Replacing, s.Bytes, s.Bytes)
	kept, err = setAside(j.DataDirectory, j.id(), func(p place) keeping { return j.keeps(p, s.Bytes) })
	if err != nil {
		return kept, err
	}
	return kept, makeFolders(j.DataDirectory, s)
}

// keeping is whether data from before stay on a volume.
type keeping int

const (
	dropped keeping = iota
	keptForRoom
	keptAlways
)

// keeps tells whether the data from before stay on a volume when bytes are to come.
// They take the room that they took, so it is the rest that is asked for.
func (j *job) keeps(p place, bytes int64) keeping {
	switch j.Keep {
	case keepAlways:
		return keptAlways
	case keepNever:
		return dropped
	}
	size, free, err := files.Room(p.root)
	if err != nil || free-bytes < size/10 {
		j.note("the data from before are not kept: less than a tenth of the volume would be free")
		return dropped
	}
	return keptForRoom
}

func (j *job) done(kept bool) node.Done {
	d := node.Done{ID: j.id(), Started: j.first.Started, Finished: time.Now().UTC().Truncate(time.Second), Previous: kept}
	if j.request() {
		d.Action = j.Action
	}
	return d
}

// empty leaves the node without data, where the backup has none for it.
func (j *job) empty(ctx context.Context) (string, node.Done, error) {
	s, err := Fetch(ctx, nil, j.id(), j.Backup, nil, nil, Dir(j.Root, j.id()), nil)
	if err != nil {
		return "", node.Done{}, err
	}
	kept, err := j.replace(s)
	if err != nil {
		return "", node.Done{}, err
	}
	j.phase(node.Finished, 0, 0)
	j.Log.Info("emptied", "id", j.id(), "previous_kept", kept)
	return "the node starts without data" + j.notes, j.done(kept), nil
}

// undo goes back to the disk tier's files from before.
func (j *job) undo() (string, node.Done, error) {
	j.phase(node.Replacing, 0, 0)
	if err := os.RemoveAll(Dir(j.Root, j.Undo)); err != nil {
		return "", node.Done{}, fmt.Errorf("remove what was staged for %s: %w", j.Undo, err)
	}
	kept, err := undo(j.DataDirectory, j.id(), j.Undo, func(p place) keeping { return j.keeps(p, 0) })
	if err != nil {
		return "", node.Done{}, err
	}
	j.phase(node.Finished, 0, 0)
	j.Log.Info("undone", "id", j.id(), "undo", j.Undo, "previous_kept", kept)
	return fmt.Sprintf("undone %s: the disk tier's files from before it are back; Anna shows a key of them when it is written again", j.Undo) + j.notes, j.done(kept), nil
}
