package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/medusa"
	"github.com/stategraft/stategraft/api/node"
)

// job is one run of what is asked for.
type job struct {
	Config
	before  Marker // as it was found
	lock    *os.File
	started time.Time

	marker Marker // once the data are being replaced
	begun  bool
	notes  string // for the text, each with "; " before it
	tables int
	bytes  int64
	// replaced are the directories of tables, below the data directory, that Medusa
	// takes away; nil where all goes.
	replaced map[string]bool
}

func (j *job) note(text string) {
	if text != "" {
		j.notes += "; " + text
		j.Log.Warn(text)
	}
}

// phase tells how far it is.
func (j *job) phase(phase string, bytes int64) { j.waiting(phase, bytes, "") }

// waiting tells also what is waited for.
func (j *job) waiting(phase string, bytes int64, message string) {
	j.tell(node.Progress{Phase: phase, Bytes: bytes, BytesTotal: j.bytes, Started: j.started, Message: message})
}

// keeping decides about the data from before, as long as nothing has changed. add
// is what will be written yet. The function that it gives is to be called right
// before the first change, and gives what was kept.
func (j *job) keeping(l layout, add int64) (func(context.Context) (*Kept, error), error) {
	if err := l.removable(j.replaced); err != nil {
		return nil, err
	}
	if d := j.before.Doing; d != nil {
		kept := d.whole()
		if kept == nil && j.Keep != keepNever {
			j.note("nothing is kept: the data were half replaced by " + d.ID)
		}
		return func(context.Context) (*Kept, error) { return kept.as(j.id()), nil }, nil
	}
	if j.Keep == keepNever {
		return func(context.Context) (*Kept, error) { return nil, nil }, nil
	}
	s := j.survey(l, j.replaced)
	r := room{add: add}
	var err error
	if r.size, r.free, err = files.Room(j.DataMount); err != nil {
		return nil, err
	}
	r.older = j.older()
	if j.Action == actionEmpty {
		r.add = s.old // it will be sent about as much by the others
	}
	keep, note, err := decide(j.Keep, s, r)
	if err != nil {
		return nil, err
	}
	j.note(note)
	return func(ctx context.Context) (*Kept, error) {
		if !keep {
			return nil, nil
		}
		// From here on a volume without a marker is one that has lost it (adopted).
		if _, err := os.Stat(markerPath(j.DataMount)); errors.Is(err, fs.ErrNotExist) {
			if err := j.before.write(j.DataMount); err != nil {
				return nil, err
			}
		}
		kept, err := j.setAside(ctx, l, s)
		if err != nil && j.Keep == keepIfRoom && ctx.Err() == nil {
			j.note("the data from before are not kept: " + err.Error())
			return nil, j.prune(j.before)
		}
		return kept, err
	}, nil
}

// begin is the last step before the data change: from here on the marker says
// that they are being replaced. from are, in an undo, the data that come back.
func (j *job) begin(kept, from *Kept, as node.Done) error {
	doing := Doing{ID: j.id(), Request: j.request(), Action: j.Action, Started: j.started, Kept: kept, From: from}
	as.ID, as.Started = doing.ID, doing.Started
	j.marker = j.before.begun(doing, as)
	step("begin")
	if err := j.marker.write(j.DataMount); err != nil {
		return err
	}
	j.begun = true
	step("begun")
	j.phase(node.Replacing, j.bytes)
	return nil
}

// finish makes all durable before it says so.
func (j *job) finish(l layout, done node.Done) (node.Done, error) {
	for _, path := range append([]string{j.DataMount}, l.paths()...) {
		if _, err := os.Stat(path); err != nil {
			continue // not there in this pod
		}
		if err := files.SyncVolume(path); err != nil {
			return done, err
		}
	}
	kept := j.marker.Doing.Kept
	if j.Keep == keepNever {
		kept = nil
	}
	if kept != nil {
		kept.Bytes, kept.Mode = j.exclusive(kept), j.Keep
	}
	done.ID, done.Action = j.id(), j.Action
	if !j.request() {
		done.Action = ""
	}
	done.Started, done.Finished = j.started, time.Now().UTC().Truncate(time.Second)
	done.Previous, done.Runs = kept != nil, j.marker.Begun[j.id()]
	after := j.marker.finished(done, kept)
	step("finish")
	if err := after.write(j.DataMount); err != nil {
		return done, err
	}
	step("finished")
	if err := j.prune(after); err != nil {
		j.Log.Warn("old data stay on the volume", "error", err.Error())
	}
	j.phase(node.Finished, j.bytes)
	return done, nil
}

func (l layout) paths() []string {
	var paths []string
	for _, at := range l {
		paths = append(paths, at.Path)
	}
	return paths
}

// restore has Medusa replace the data by a backup.
func (j *job) restore(ctx context.Context) (string, node.Done, error) {
	var none node.Done
	if j.Image.Python == "" {
		return "", none, fmt.Errorf("backup %s cannot be restored: %w with an interpreter", j.Backup, medusa.ErrNone)
	}
	config, err := medusa.ConfigureAs(j.Places, j.Private, j.yaml(), medusa.Override{Prefix: j.Prefix, OwnYaml: j.remote()})
	if err != nil {
		return "", none, err
	}
	j.Secrets.Learn(j.Places.Credentials())
	if err := j.clean(); err != nil {
		return "", none, err
	}
	j.phase(node.LookingUp, 0)
	report, err := j.precheck(ctx, config)
	if err != nil {
		return "", none, err
	}
	j.bytes, j.tables = report.Size(), len(report.Tables)
	free, err := j.makeRoom(report)
	if err != nil {
		return "", none, err
	}
	if err := Judge(report, j.Backup, free); err != nil {
		return "", none, err
	}
	if err := j.writable(report.DataDirectory); err != nil {
		return "", none, err
	}
	l := report.layout()
	j.replaced = j.replaces(report)
	keep, err := j.keeping(l, j.bytes)
	if err != nil {
		return "", none, err
	}
	j.Log.Info("restoring", "id", j.id(), "backup", j.Backup, "source", report.FQDN, "into", report.DataDirectory,
		"tables", j.tables, "bytes", j.bytes, "free", free, "cassandra", report.ServerVersion)
	as := node.Done{Backup: j.Backup, Source: report.FQDN, Bytes: j.bytes, Tables: j.tables}
	err = j.medusa(ctx, config, func(ctx context.Context) error {
		kept, err := keep(ctx)
		if err != nil {
			return err
		}
		return j.begin(kept, nil, as)
	})
	if err != nil {
		return "", none, fmt.Errorf("restore backup %s: %w", j.Backup, err)
	}
	if !j.begun {
		return "", none, fmt.Errorf("backup %s was not restored: Medusa ended without it, its log says why", j.Backup)
	}
	return j.verify(report, l, as)
}

// verify checks what Medusa did.
func (j *job) verify(report Report, l layout, as node.Done) (string, node.Done, error) {
	j.phase(node.Verifying, j.bytes)
	if j.remote() {
		if err := removeForeign(report.DataDirectory, report.Tables); err != nil {
			return "", node.Done{}, err
		}
	}
	if err := Verify(report.DataDirectory, report.Tables, j.remote()); err != nil {
		return "", node.Done{}, fmt.Errorf("backup %s: %w", j.Backup, err)
	}
	if err := j.leaveContents(report.Contents); err != nil {
		return "", node.Done{}, err
	}
	removed, err := removeStale(l)
	if err != nil {
		return "", node.Done{}, err
	}
	if err := j.sweep(); err != nil {
		return "", node.Done{}, err
	}
	done, err := j.finish(l, as)
	if err != nil {
		return "", node.Done{}, err
	}
	j.Log.Info("restored", "id", done.ID, "backup", j.Backup, "source", done.Source, "tables", done.Tables, "bytes", done.Bytes,
		"seconds", time.Since(j.started).Seconds(), "stale_files_removed", removed, "previous_kept", done.Previous)
	return fmt.Sprintf("restored backup %s of node %s: %d tables, %s", j.Backup, done.Source, done.Tables, human(done.Bytes)) + j.notes, done, nil
}

// clean removes what failed tries have left, and data that nobody will ask for.
func (j *job) clean() error {
	if err := j.prune(j.before); err != nil {
		return err
	}
	return j.sweep()
}

// paths of a report: the places of the data as Medusa sees them.
func (r Report) layout() layout {
	return newLayout(r.DataDirectory, r.CommitlogDirectory, r.SavedCachesDirectory, r.HintsDirectory)
}

// relocate gives the places of a seal in this pod: the volume may be mounted
// somewhere else now.
func (c Config) relocate(s seal) layout {
	l := make(layout, 0, len(s.Layout))
	for _, at := range s.Layout {
		if below, err := filepath.Rel(s.Mount, at.Path); err == nil && filepath.IsLocal(below) {
			at.Path = filepath.Join(c.DataMount, below)
		}
		l = append(l, at)
	}
	return l
}
