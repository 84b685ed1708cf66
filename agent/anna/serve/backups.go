package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/backup"
	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/api/node"
)

// engine is what is done with the node itself. Tests have their own.
type engine interface {
	// ready is nil where the node can be asked at all.
	ready() error
	backup(ctx context.Context, name string, full bool, to storage, tell func(backup.Progress)) (manifest.Manifest, error)
	replaying
}

// jobs are the backups that this process makes and has made.
type jobs struct {
	*server
	ctx context.Context // of the sidecar; set by start
	all *sync.WaitGroup

	mutex    sync.Mutex
	failed   []node.Failed // here, the latest first
	progress backup.Progress
	counts   backupCounts
}

// backupCounts are for metrics.
type backupCounts struct {
	succeeded, failed int64
	last              manifest.Manifest // of the last that succeeded
}

// mostFailed is how many backups that have failed are remembered.
const mostFailed = 20

// longestWhy is of what is told of one, in bytes.
const longestWhy = 1000

func newJobs(s *server) *jobs { return &jobs{server: s} }

func (j *jobs) start(ctx context.Context, all *sync.WaitGroup) { j.ctx, j.all = ctx, all }

// begin begins a backup. done, where it is not nil, is called at its end.
func (j *jobs) begin(ctx context.Context, name string, full bool, done func(error)) error {
	release, err := j.turn.take(aBackup, name)
	if err != nil {
		return err
	}
	if err := j.ready(ctx, name); err != nil {
		release()
		return err
	}
	j.turn.forget(name)
	j.note(name, nil)
	j.mutex.Lock()
	j.progress = backup.Progress{}
	j.mutex.Unlock()
	j.Log.Info("backup begins", "backup", name, "full", full)
	j.all.Go(func() {
		err := errors.New("it has not ended")
		if panicked := guarded(func() { err = j.make(j.ctx, name, full) }); panicked != nil {
			err = panicked
		}
		// Where the sidecar ends, what it was at stays written down.
		if j.ctx.Err() == nil {
			j.note(name, err)
			release()
		}
		if done != nil {
			done(err)
		}
	})
	return nil
}

// ready tells whether a backup of the name can begin.
func (j *jobs) ready(ctx context.Context, name string) error {
	if err := j.engine.ready(); err != nil {
		return err
	}
	switch there, _, err := j.state(ctx, name); {
	case err != nil:
		return err
	case there != absent:
		return fmt.Errorf("%w: backup %s of node %s", store.ErrExists, name, j.Pod.Name)
	}
	return nil
}

func (j *jobs) make(ctx context.Context, name string, full bool) error {
	began := time.Now()
	to, done, err := j.shelf.borrow(ctx, "")
	if err != nil {
		return err
	}
	defer done()
	m, err := j.engine.backup(ctx, name, full, to, func(p backup.Progress) {
		j.turn.phase(p.Phase)
		j.mutex.Lock()
		j.progress = p
		j.mutex.Unlock()
	})
	if err != nil {
		j.Log.Error("a backup has failed", "backup", name, "error", j.Secrets.Hide(err.Error()))
		return err
	}
	j.Log.Info("backup is complete", "backup", name, "mode", m.Mode, "keys", m.Keys, "bytes", m.Bytes, "packs", len(m.Packs), "missing", m.Missing.Count, "seconds", time.Since(began).Seconds())
	if m.Missing.Count > 0 {
		j.Log.Warn("keys that the node listed are not in the backup", "backup", name, "count", m.Missing.Count, "first", m.Missing.Keys[:min(10, len(m.Missing.Keys))])
	}
	j.mutex.Lock()
	j.counts.succeeded++
	j.counts.last = m
	j.mutex.Unlock()
	return nil
}

// note remembers how a backup ended.
func (j *jobs) note(name string, err error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.failed = slices.DeleteFunc(j.failed, func(f node.Failed) bool { return f.Name == name })
	if err == nil {
		return
	}
	j.counts.failed++
	why := j.Secrets.Hide(err.Error())
	if len(why) > longestWhy {
		why = strings.ToValidUTF8(why[:longestWhy], "") + " …"
	}
	j.failed = slices.Insert(j.failed, 0, node.Failed{Name: name, At: now(), Why: why})
	j.failed = j.failed[:min(len(j.failed), mostFailed)]
}

// failures are the backups that have failed: also what a sidecar before this one was at.
func (j *jobs) failures() []node.Failed {
	j.mutex.Lock()
	all := slices.Clone(j.failed)
	j.mutex.Unlock()
	if name := j.turn.brokenName(); name != "" {
		all = append(all, node.Failed{Name: name, At: j.turn.began, Why: "the sidecar ended while it made it, or was started anew"})
	}
	return all
}

// why is why a backup failed here.
func (j *jobs) why(name string) string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for _, f := range j.failed {
		if f.Name == name {
			return f.Why
		}
	}
	return ""
}

// state is how far a part of a backup is, by the storage.
type state int

const (
	absent state = iota
	begun        // and no more: it has failed, where it is not made now
	complete
	damaged // it cannot be read
)

// state asks the storage for this node's own part of a backup.
func (j *jobs) state(ctx context.Context, name string) (state, manifest.Manifest, error) {
	from, done, err := j.shelf.borrow(ctx, "")
	if err != nil {
		return absent, manifest.Manifest{}, err
	}
	defer done()
	return stateOf(ctx, from, name, j.Pod.Name)
}

func stateOf(ctx context.Context, from storage, name, of string) (state, manifest.Manifest, error) {
	m, err := from.Manifest(ctx, name, of)
	switch {
	case err == nil:
		return complete, m, nil
	case errors.Is(err, store.ErrNoBackup):
		return absent, m, nil
	case errors.Is(err, store.ErrUnfinished):
		return begun, m, nil
	case errors.Is(err, store.ErrDamaged):
		return damaged, m, nil
	}
	return absent, m, fmt.Errorf("look for backup %s of node %s: %w", name, of, err)
}
