package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/stategraft/stategraft/agent/medusa"
	"github.com/stategraft/stategraft/agent/process"
	"github.com/stategraft/stategraft/agent/python"
)

// lock keeps two restores from one volume. Medusa inherits it, so that it is
// held for as long as anything still moves files. A file system without locks
// gives none.
func (c Config) lock() (*os.File, error) {
	path := filepath.Join(Dir(c.DataMount), "restore.lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("prepare the data volume: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.New("another restore is running on this volume")
	}
	c.Log.Warn("the volume cannot be locked", "error", err.Error())
	return nil, nil
}

// env is Medusa's. CQL credentials are not needed while no database runs, and
// Medusa fails where their Secret is missing.
func (c Config) env() []string {
	change := map[string]string{
		"BACKUP_NAME": c.Backup, "RESTORE_KEY": c.id(), "RESTORE_MAPPING": "",
		"MEDUSA_TMP_DIR": c.Temp, "MEDUSA_CQL_K8S_SECRETS_PATH": "",
	}
	if c.Source != "" {
		change["POD_IP"] = c.Source // what Medusa takes for the node's name
	}
	return c.Image.Env(change)
}

// precheck asks Medusa's own code what the storage holds.
func (c Config) precheck(ctx context.Context, ini string) (Report, error) {
	var report Report
	out := filepath.Join(c.Private, "precheck.json")
	if err := os.Remove(out); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return report, fmt.Errorf("look the backup up: %w", err)
	}
	spec := c.Image.Run("-c", python.Precheck, ini, c.Backup, out)
	spec.Env = c.env()
	ctx, cancel := context.WithTimeoutCause(ctx, c.PrecheckLimit, fmt.Errorf("no answer from the storage within %v", c.PrecheckLimit))
	defer cancel()
	tail := process.Tail{Size: 20}
	failed := process.Run(ctx, spec, func(line string) { tail.Add(c.Secrets.Hide(line)) })
	content, err := os.ReadFile(out)
	if failed == nil && err == nil {
		err = json.Unmarshal(content, &report)
	}
	switch {
	case failed != nil:
		return report, fmt.Errorf("look backup %s up: %w%s", c.Backup, failed, because(tail.Lines))
	case err != nil:
		return report, fmt.Errorf("look backup %s up: %w%s", c.Backup, err, because(tail.Lines))
	}
	report.Error = c.Secrets.Hide(report.Error)
	return report, nil
}

// medusa runs Medusa's restore.
func (c Config) medusa(ctx context.Context, ini string, lock *os.File) error {
	spec := c.Image.Run("-c", python.Restore, ini, c.id(), markerPath(c.DataMount), nextPath(c.DataMount))
	spec.Env = c.env()
	if lock != nil {
		spec.Extra = []*os.File{lock}
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go c.watch(watching)
	tail := process.Tail{Size: 20}
	last := "" // error that it logged
	err := process.Run(ctx, spec, func(line string) {
		line = c.Secrets.Hide(line)
		tail.Add(line)
		level, message := medusa.Line(line)
		number := slog.LevelInfo
		if level == "ERROR" || level == "CRITICAL" {
			number, last = slog.LevelError, message
		}
		c.Log.Log(context.Background(), number, message, "from", "medusa")
	})
	if ctx.Err() != nil {
		return errors.New("interrupted: the next start begins anew")
	}
	if err != nil {
		return fmt.Errorf("the run of Medusa failed: %w%s", err, downloading(because(tail.Lines), last))
	}
	return nil
}

// exception is the last line of a Python traceback.
var exception = regexp.MustCompile(`^[A-Za-z_][\w.]*(Error|Exception|Exit)\b.*`)

// because picks the line that says why a Python program failed: the last
// exception, but not the one that only says that trying has ended.
func because(lines []string) string {
	reason := ""
	for _, line := range lines {
		if exception.MatchString(line) && (reason == "" || !strings.Contains(line, "RetryError")) {
			reason = line
		}
	}
	if reason == "" && len(lines) > 0 {
		_, reason = medusa.Line(lines[len(lines)-1])
	}
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// downloading replaces the reason where Medusa says of whatever keeps an object
// from being downloaded, a full volume too, that the object does not exist; what
// it logged before is true (medusa/storage/s3_base_storage.py).
func downloading(reason, logged string) string {
	if logged != "" && strings.Contains(reason, "ObjectDoesNotExistError") {
		return ": " + logged
	}
	return reason
}

// watch tells now and then how far the download is.
func (c Config) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.Progress):
		}
		var bytes int64
		found, _ := leftovers(c.Temp)
		for _, dir := range found {
			_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return nil // it is moved away while it is looked at
				}
				if info, err := entry.Info(); err == nil {
					bytes += info.Size()
				}
				return nil
			})
		}
		c.Log.Info("restore is running", "bytes_downloaded", bytes)
	}
}
