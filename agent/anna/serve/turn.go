package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/node"
)

// What is done to a node's backups, one at a time.
const (
	aBackup   = "backup"
	aDeletion = "the deletion of backup"
	aDiscard  = "the discarding of backup"
	aReplay   = "the replay of backup"
	aHealing  = "keys that its own join has hidden"
	aTakeOver = "a newer container of the pod that takes over"
)

// errBusy says that something else is done. Its text tells what.
var errBusy = errors.New("this node is busy")

// doing is what is done. It is in running.json while it is, as Medusa's hooks write it
// (agent/python/running.py): a sidecar that is started anew knows then what it was at.
type doing struct {
	Kind string `json:"kind"`
	node.Running
}

func (d doing) String() string {
	return strings.TrimSpace(d.Kind+" "+d.Name) + " since " + d.Since.Format(time.RFC3339)
}

// turn lets one thing at a time be done: a backup refers to packs that a deletion would
// take for unneeded, and two backups, or one and a replay, would have more tuples
// outstanding than Anna survives.
type turn struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	began time.Time // of this sidecar

	mutex sync.Mutex
	held  *doing
	freed chan struct{} // closed when held ends
	// interrupted is the backup that was made when the sidecar ended before; empty for none.
	interrupted string
}

func newTurn(path string, log *slog.Logger) *turn {
	t := &turn{path: path, log: log, now: time.Now, began: now()}
	content, err := os.ReadFile(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			log.Warn("what was done before cannot be read", "error", err.Error())
		}
		return t
	}
	var d doing
	if json.Unmarshal(content, &d) == nil && d.Kind == aBackup {
		t.interrupted = d.Name
		log.Warn("a backup was interrupted by the sidecar's end and has failed", "backup", d.Name, "since", d.Since.Format(time.RFC3339))
	}
	return t
}

// take takes the turn, or is errBusy.
func (t *turn) take(kind, name string) (release func(), err error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.held != nil {
		return nil, fmt.Errorf("%w with %s", errBusy, t.held)
	}
	held := &doing{kind, node.Running{Name: name, Since: t.now().UTC().Truncate(time.Second), Phase: node.Preparing}}
	freed := make(chan struct{})
	t.held, t.freed = held, freed
	t.write()
	return sync.OnceFunc(func() {
		t.mutex.Lock()
		defer t.mutex.Unlock()
		t.held, t.freed = nil, nil
		if err := os.Remove(t.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.log.Warn("what has ended cannot be written down", "error", err.Error())
		}
		close(freed)
	}), nil
}

// await takes the turn when it is free, and tells what it waits for until then.
func (t *turn) await(ctx context.Context, kind, name string, tell func(string)) (release func(), err error) {
	for {
		release, err := t.take(kind, name)
		if err == nil {
			return release, nil
		}
		tell("waits: " + err.Error())
		t.mutex.Lock()
		freed := t.freed
		t.mutex.Unlock()
		if freed == nil {
			continue
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// phase writes down how far a backup is.
func (t *turn) phase(phase string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.held != nil && phase != "" && t.held.Phase != phase {
		t.held.Phase = phase
		t.write()
	}
}

// write writes what is held. Without it a restarted sidecar goes by the storage alone,
// which knows of every backup that has begun.
func (t *turn) write() {
	if err := files.WriteJSON(t.path, t.held, 0o600, files.Owner{}); err != nil {
		t.log.Warn("what runs cannot be written down", "file", filepath.Base(t.path), "error", err.Error())
	}
}

// backup is the backup that is made, or nil.
func (t *turn) backup() *node.Running {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.held == nil || t.held.Kind != aBackup {
		return nil
	}
	running := t.held.Running
	return &running
}

// busy is what is done that is no backup, and keeps one from being made; empty for nothing.
func (t *turn) busy() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.held == nil || t.held.Kind == aBackup {
		return ""
	}
	return t.held.String()
}

// is tells whether it is this that is done.
func (t *turn) is(kind string) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.held != nil && t.held.Kind == kind
}

// brokenName is the backup that was interrupted, or empty.
func (t *turn) brokenName() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.interrupted
}

// broken tells whether a backup was interrupted by the end of a sidecar before this one.
func (t *turn) broken(name string) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.interrupted == name && name != ""
}

// forget has it be so no more: it is discarded, deleted or made anew.
func (t *turn) forget(name string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.interrupted == name {
		t.interrupted = ""
	}
}

// guarded does something whose panic must not end the sidecar.
func guarded(do func()) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	do()
	return nil
}
