package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stategraft/stategraft/agent/files"
)

// instant is a time as nodetool listsnapshots prints it since Cassandra 4.1.
var instant = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// List reads the output of nodetool listsnapshots: for each of Medusa's
// snapshots when it was taken, or the zero time where that is not told. All
// releases print a table whose first column is the name (3.x by printf, 4.0 and
// later by TableBuilder); 4.1 added creation, expiration and a mark for
// ephemeral ones at the end.
func List(output string) map[string]time.Time {
	found := map[string]time.Time{}
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 3 || valid(fields[0]) != nil {
			continue
		}
		var taken time.Time
		if text := instant.FindString(line); text != "" {
			taken, _ = time.Parse(time.RFC3339Nano, text)
		}
		// One line a table: the earliest counts.
		if before, ok := found[fields[0]]; !ok || before.IsZero() || !taken.IsZero() && taken.Before(before) {
			found[fields[0]] = taken
		}
	}
	return found
}

// Sweeper clears what backups that were interrupted have left: their snapshots
// keep the space of files that compaction has replaced.
type Sweeper struct {
	Server *Server
	Delay  time.Duration // before the first sweep: the database's start is not to be slowed down
	Age    time.Duration // from which a snapshot is a leftover
	Every  time.Duration // between two sweeps
	Retry  time.Duration // between two tries while the database does not answer
	Seen   string        // file that keeps when a snapshot was first seen
	Busy   func() bool   // whether a backup is running
	Up     func() error  // why the database cannot answer; cheaper than a JVM
	Now    func() time.Time

	over map[string]bool // of backups that did not run any more at the last sweep
}

// Run sweeps now and then until the context ends.
func (s *Sweeper) Run(ctx context.Context) {
	wait, said := s.Delay, ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = s.Every
		if err := s.sweep(ctx); err != nil {
			wait = s.Retry
			if text := firstLine(err.Error()); text != said && ctx.Err() == nil {
				said = text
				s.Server.Log.Info("leftover snapshots are looked for later", "error", text)
			}
		}
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// sweep clears the leftovers once.
func (s *Sweeper) sweep(ctx context.Context) error {
	if err := s.Up(); err != nil {
		return fmt.Errorf("the database does not answer yet: %w", err)
	}
	release, err := s.Server.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	if s.Busy() {
		s.over = nil
		return nil // its snapshot may be older than a day
	}
	output, err := s.Server.Tool.Run(ctx, "listsnapshots")
	if err != nil {
		return err
	}
	listed := List(output)
	names := append(s.old(listed), s.abandoned(listed)...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if _, err := s.Server.Tool.Run(ctx, "clearsnapshot", "-t", name); err != nil {
			return err
		}
		delete(s.Server.backup, name)
		s.Server.Log.Info("cleared a leftover snapshot", "snapshot", name)
	}
	return nil
}

// abandoned picks those whose backup is known to be over, as Medusa was killed in it, without
// waiting until they are old: at two sweeps in a row none was running. Once is not enough,
// as Medusa's container may not answer in time on a node that has much to do.
func (s *Sweeper) abandoned(listed map[string]time.Time) (names []string) {
	before := s.over
	s.over = map[string]bool{}
	for name := range s.Server.backup {
		if _, there := listed[name]; !there {
			delete(s.Server.backup, name)
			continue
		}
		if s.over[name] = true; before[name] {
			names = append(names, name)
		}
	}
	return names
}

// old picks the leftovers. Before 4.1 nodetool does not tell when a snapshot
// was taken, so its age counts from when it was first seen here.
func (s *Sweeper) old(listed map[string]time.Time) []string {
	seen := map[string]time.Time{}
	if content, err := os.ReadFile(s.Seen); err == nil {
		_ = json.Unmarshal(content, &seen) // what cannot be read is begun anew
	}
	before := maps.Clone(seen)
	maps.DeleteFunc(seen, func(name string, _ time.Time) bool { _, ok := listed[name]; return !ok })
	var old []string
	for name, taken := range listed {
		if taken.IsZero() {
			if seen[name].IsZero() {
				seen[name] = s.Now().UTC()
			}
			taken = seen[name]
		}
		if s.Now().Sub(taken) > s.Age {
			old = append(old, name)
		}
	}
	if !maps.Equal(before, seen) {
		err := files.MakeDir(filepath.Dir(s.Seen), 0o755, files.Owner{})
		if err == nil {
			err = files.WriteJSON(s.Seen, seen, 0o600, files.Owner{})
		}
		if err != nil {
			s.Server.Log.Warn("when snapshots were first seen cannot be kept", "error", err.Error())
		}
	}
	slices.Sort(old)
	return old
}
