// Package restore is the init container that restores a node's data before the
// database starts. Medusa ends with status 0 where it could not restore, and
// leaves half of its work behind where it was interrupted; here a backup that
// is not restored in full is a failure, and one that is restored once is never
// restored again.
package restore

import (
	"context"
	"crypto/rand"
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
)

// Config is what the container's environment says.
type Config struct {
	Places files.Places
	Image  medusa.Image

	Backup        string // name of the backup to restore
	Source        string // node of the backup; empty for the pod itself
	PodName       string
	DataMount     string // where the data volume is mounted
	DataDirectory string // empty where only the volume is known
	Commitlog     string
	Temp          string // for the download, on the data volume (MEDUSA_TMP_DIR)
	Private       string // for what only this container reads

	PrecheckLimit time.Duration
	Progress      time.Duration // between two lines about the download
	Secrets       *event.Secrets
	Log           *slog.Logger
}

// id names what is asked for. A restore from another node is another restore;
// the pod's own name says nothing new, and its address, the node's name on the
// host network, changes with the host.
func (c Config) id() string {
	if c.Source == "" || c.Source == c.PodName {
		return c.Backup
	}
	return c.Backup + "@" + c.Source
}

// Run restores the backup unless that is done already. The message says how it
// went; it is for people, in one line.
func Run(ctx context.Context, c Config) (message string, err error) {
	if err := c.usable(); err != nil {
		return "", err
	}
	if err := files.MakeDir(Dir(c.DataMount), 0o755, files.Owner{}); err != nil {
		return "", fmt.Errorf("prepare the data volume: %w", err)
	}
	lock, err := c.lock()
	if err != nil {
		return "", err
	}
	if lock != nil {
		defer lock.Close()
	}
	before, err := ReadMarker(c.DataMount)
	if err != nil {
		// Restoring again would destroy what was written since, and going on
		// might start the database without its restore.
		return "", fmt.Errorf("%w; remove %s to restore backup %s (again)", err, markerPath(c.DataMount), c.Backup)
	}
	if before.ID == c.id() && before.Outcome == Done {
		return fmt.Sprintf("backup %s was restored at %s already: nothing to do", c.Backup, before.Finished.Format(time.RFC3339)), nil
	}
	if before.Outcome == Applying {
		c.Log.Warn("an earlier restore was interrupted while it replaced the data: starting anew", "backup", before.Backup, "source", before.Source)
	}
	return c.restore(ctx, lock)
}

func (c Config) usable() error {
	if c.Backup == "" {
		return errors.New("no backup is named (STATEGRAFT_BACKUP is empty)")
	}
	if info, err := os.Stat(c.DataMount); err != nil || !info.IsDir() {
		return fmt.Errorf("the data volume is not at %q (STATEGRAFT_DATA_MOUNT)", c.DataMount)
	}
	return nil
}

func (c Config) restore(ctx context.Context, lock *os.File) (string, error) {
	if c.Image.Python == "" {
		return "", fmt.Errorf("backup %s cannot be restored: %w with an interpreter", c.Backup, medusa.ErrNone)
	}
	ini, err := medusa.Configure(c.Places, c.Private, c.yaml())
	if err != nil {
		return "", err
	}
	c.Secrets.Learn(c.Places.Credentials())
	marker := Marker{
		ID: c.id(), Backup: c.Backup, Outcome: Applying, Try: rand.Text(), Started: time.Now().UTC().Truncate(time.Second),
	}
	if err := c.clean(); err != nil {
		return "", err
	}
	report, err := c.precheck(ctx, ini)
	if err != nil {
		return "", err
	}
	free, err := files.Free(c.Temp)
	if err != nil {
		return "", err
	}
	if err := Judge(report, c.Backup, free); err != nil {
		return "", err
	}
	if err := c.writable(report.DataDirectory); err != nil {
		return "", err
	}
	marker.Source, marker.Bytes, marker.Tables = report.FQDN, report.Size(), len(report.Tables)
	if err := marker.write(nextPath(c.DataMount)); err != nil {
		return "", err
	}
	c.Log.Info("restoring", "backup", c.Backup, "source", report.FQDN, "into", report.DataDirectory,
		"tables", marker.Tables, "bytes", marker.Bytes, "free", free, "cassandra", report.ServerVersion)
	if err := c.medusa(ctx, ini, lock); err != nil {
		return "", fmt.Errorf("restore backup %s: %w", c.Backup, err)
	}
	return c.finish(report, marker)
}

// finish checks what Medusa did and makes it durable before it says so.
func (c Config) finish(report Report, marker Marker) (string, error) {
	now, err := ReadMarker(c.DataMount)
	if err != nil {
		return "", err
	}
	if now.Try != marker.Try {
		return "", fmt.Errorf("backup %s was not restored: Medusa ended without it, its log says why", c.Backup)
	}
	if err := Verify(report.DataDirectory, report.Tables); err != nil {
		return "", fmt.Errorf("backup %s: %w", c.Backup, err)
	}
	removed, err := removeStale(report)
	if err != nil {
		return "", err
	}
	if err := c.clean(); err != nil {
		return "", err
	}
	for _, path := range []string{report.DataDirectory, c.DataMount} {
		if err := files.SyncVolume(path); err != nil {
			return "", err
		}
	}
	marker.Outcome, marker.Finished = Done, time.Now().UTC().Truncate(time.Second)
	if err := marker.write(markerPath(c.DataMount)); err != nil {
		return "", err
	}
	c.Log.Info("restored", "backup", c.Backup, "source", marker.Source, "tables", marker.Tables, "bytes", marker.Bytes,
		"seconds", time.Since(marker.Started).Seconds(), "stale_files_removed", removed)
	return fmt.Sprintf("restored backup %s of node %s: %d tables, %s", c.Backup, marker.Source, marker.Tables, human(marker.Bytes)), nil
}

// clean removes what failed tries have left: each may be as large as the data.
func (c Config) clean() error {
	found, err := leftovers(c.Temp)
	if err != nil {
		return fmt.Errorf("look for leftovers of failed restores: %w", err)
	}
	for _, dir := range found {
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
