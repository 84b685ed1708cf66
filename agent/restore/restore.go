// Package restore is the init container that restores a node's data before the
// database starts. Medusa ends with status 0 where it could not restore, and
// leaves half of its work behind where it was interrupted; here a backup that
// is not restored in full is a failure, and one that is restored once is never
// restored again.
package restore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/medusa"
	"github.com/stategraft/stategraft/agent/render"
	"github.com/stategraft/stategraft/api/node"
)

// What Config.Action may be.
const (
	actionRestore = "restore"
	actionEmpty   = "empty"
	actionUndo    = "undo"
)

// modeRemote is the value of Config.Mode where the backup is another cluster's.
const modeRemote = "Remote"

// Config is what the container's environment says.
type Config struct {
	Places files.Places
	Image  medusa.Image

	ID     string // of the request; empty where the template asks
	Action string // restore, where it is empty
	Backup string // name of the backup to restore
	Source string // node of the backup; empty for the pod itself
	Undo   string // ID of the request to undo
	Mode   string // Remote, or in place
	Prefix string // of the storage that the backup is in; empty for the pod's own
	Keep   string // Always, IfRoom, Never; empty for Never

	PodName       string
	DataMount     string // where the data volume is mounted
	DataDirectory string // empty where only the volume is known
	Commitlog     string
	SavedCaches   string
	Temp          string // for the download, on the data volume (MEDUSA_TMP_DIR)
	Private       string // for what only this container reads

	// ContentsFile is where to leave what was counted when the backup was made; empty for
	// nowhere. Where it was not, no file is left.
	ContentsFile string

	PrecheckLimit time.Duration
	Progress      time.Duration // between two lines about the download
	// Tell is called when something has changed, and every second or so of a download.
	Tell    func(node.Progress) `json:"-"`
	Secrets *event.Secrets
	Log     *slog.Logger
}

// id names what is asked for. Of a template, a restore from another node is
// another restore; the pod's own name says nothing new, and its address, the
// node's name on the host network, changes with the host.
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

func (c Config) remote() bool { return c.Mode == modeRemote }

// what names what is asked for in a sentence.
func (c Config) what() string {
	switch c.Action {
	case actionEmpty:
		return "emptying the volume"
	case actionUndo:
		return "undoing " + c.Undo
	}
	return "backup " + c.Backup
}

// Run does what is asked for unless that is done already. The text says how it
// went, for people, in one line.
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
	if err := files.MakeDir(Dir(c.DataMount), 0o755, files.Owner{}); err != nil {
		return "", done, fmt.Errorf("prepare the data volume: %w", err)
	}
	lock, err := c.lock()
	if err != nil {
		return "", done, err
	}
	if lock != nil {
		defer lock.Close()
	}
	before, err := ReadMarker(c.DataMount)
	if err != nil {
		// Restoring again would destroy what was written since, and going on
		// might start the database without its restore.
		return "", done, fmt.Errorf("%w; remove %s for %s (again)", err, markerPath(c.DataMount), c.what())
	}
	if done, ok := before.done(c.id(), c.request()); ok {
		return c.again(before, done)
	}
	if before.Doing != nil {
		c.Log.Warn("an earlier restore was interrupted while it replaced the data: starting anew", "id", before.Doing.ID)
	}
	j := &job{Config: c, before: before, lock: lock, started: time.Now().UTC().Truncate(time.Second)}
	switch c.Action {
	case actionEmpty:
		return j.empty(ctx)
	case actionUndo:
		return j.undo(ctx)
	}
	return j.restore(ctx)
}

// again is what is done already. It is not so where another restore has begun to
// replace the data since: then half of that is there.
func (c Config) again(before Marker, done node.Done) (string, node.Done, error) {
	if d := before.Doing; d != nil {
		way := "ask for it once more"
		if d.Kept != nil {
			way += ", or undo it: the data from before are kept"
		}
		return "", node.Done{}, fmt.Errorf("the data on the volume are half replaced: %s was interrupted, after %s was done; the database must not start with them; %s", d.ID, c.what(), way)
	}
	if err := c.prune(before); err != nil {
		c.Log.Warn("old data stay on the volume", "error", err.Error())
	}
	c.tell(node.Progress{Phase: node.Finished, Bytes: done.Bytes, BytesTotal: done.Bytes, Started: done.Started})
	return fmt.Sprintf("%s was done at %s already: nothing to do", c.what(), done.Finished.Format(time.RFC3339)), done, nil
}

func (c Config) usable() error {
	switch {
	case c.Action != actionRestore && c.Action != actionEmpty && c.Action != actionUndo:
		return fmt.Errorf("STATEGRAFT_RESTORE_ACTION is %q, which this agent does not know", c.Action)
	case c.Mode != "" && c.Mode != "InPlace" && c.Mode != modeRemote:
		return fmt.Errorf("STATEGRAFT_RESTORE_MODE is %q, which this agent does not know", c.Mode)
	case c.Keep != keepAlways && c.Keep != keepIfRoom && c.Keep != keepNever:
		return fmt.Errorf("STATEGRAFT_KEEP_PREVIOUS is %q, which this agent does not know", c.Keep)
	case c.Action == actionRestore && c.Backup == "":
		return errors.New("no backup is named (STATEGRAFT_BACKUP is empty)")
	case c.Action != actionRestore && c.ID == "":
		return errors.New("STATEGRAFT_RESTORE_ID is empty")
	case c.Action == actionUndo && c.Undo == "":
		return errors.New("STATEGRAFT_RESTORE_UNDO is empty")
	case c.remote() && c.PodName == "":
		return errors.New("mode Remote needs the pod's name (POD_NAME)")
	}
	if info, err := os.Stat(c.DataMount); err != nil || !info.IsDir() {
		return fmt.Errorf("the data volume is not at %q (STATEGRAFT_DATA_MOUNT)", c.DataMount)
	}
	return nil
}

// sweep removes what failed tries have left: each may be as large as the data.
func (c Config) sweep() error {
	found, err := leftovers(c.Temp)
	if err != nil {
		return fmt.Errorf("look for leftovers of failed restores: %w", err)
	}
	// Of an agent that had the next marker there.
	found = append(found, nextPath(c.DataMount))
	for _, dir := range found {
		if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove what a failed restore left: %w", err)
		}
		c.Log.Info("removed what a failed restore left", "directory", dir)
	}
	return nil
}

// writable makes the data directory where the volume is fresh, and tells early
// where it is not this user's: Medusa would find out in the middle.
func (c Config) writable(dir string) error {
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(dir, ".stategraft-*"); err == nil {
			probe.Close()
			err = os.Remove(probe.Name())
		}
	}
	if err != nil {
		return fmt.Errorf("user %d cannot write to the data directory %s: %w", os.Getuid(), dir, err)
	}
	return nil
}

// yaml is a cassandra.yaml for a volume whose layout the webhook did not know:
// here the data can be seen. It is empty where nothing better is known.
func (c Config) yaml() string {
	if c.DataDirectory != "" {
		return ""
	}
	for _, dir := range []string{filepath.Join(c.DataMount, "data"), c.DataMount} {
		if info, err := os.Stat(filepath.Join(dir, "system")); err == nil && info.IsDir() {
			text, _, _ := render.Yaml(nil, render.Pod{DataMount: c.DataMount, DataDirectory: dir, Commitlog: c.Commitlog})
			return text
		}
	}
	return ""
}
