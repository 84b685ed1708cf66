package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// dse is the keyspace under which Medusa files what DataStax Enterprise keeps
// beside the data directory (medusa/restore_node.py, maybe_restore_section).
const dse = "dse"

// Verify checks that the data directory holds exactly the files of the backup
// in each of its tables: Medusa replaces a table's directory as a whole, so a
// file too many means that it did not.
func Verify(dataDirectory string, tables []Table) error {
	for _, table := range tables {
		dir := filepath.Join(dataDirectory, table.Keyspace, table.Name)
		exact := table.Keyspace != dse
		if !exact {
			dir = filepath.Join(filepath.Dir(dataDirectory), table.Name)
		}
		if err := verifyTable(dir, table.Files, exact); err != nil {
			return fmt.Errorf("table %s.%s was not restored: %w", table.Keyspace, table.Name, err)
		}
	}
	return nil
}

func verifyTable(dir string, want map[string]int64, exact bool) error {
	found := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		found[name] = info.Size()
		return err
	})
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && len(want) == 0) {
		return err
	}
	for name, size := range want {
		have, ok := found[name]
		if !ok {
			return fmt.Errorf("file %s is missing", name)
		}
		if have != size {
			return fmt.Errorf("file %s has %d bytes, not %d", name, have, size)
		}
		delete(found, name)
	}
	for name := range found {
		if exact {
			return fmt.Errorf("file %s is not part of the backup", name)
		}
	}
	return nil
}

// leftovers are the directories that tries which failed have left
// (medusa/restore_node.py removes its own only when all went well).
func leftovers(dir string) ([]string, error) {
	return filepath.Glob(filepath.Join(dir, "medusa-restore-*"))
}

// removeStale removes what Medusa leaves alone and what does not go with the
// restored data: saved caches hold positions in files that are gone, and hints
// are writes after the backup that would be played back to other nodes.
func removeStale(report Report) (int, error) {
	removed := 0
	hints := filepath.Join(filepath.Dir(report.DataDirectory), "hints")
	for _, place := range []struct{ dir, suffixes string }{
		{report.SavedCachesDirectory, ".db .crc"},
		{hints, ".hints .crc32"},
	} {
		entries, err := os.ReadDir(place.dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return removed, fmt.Errorf("look for stale files: %w", err)
		}
		for _, entry := range entries {
			if entry.IsDir() || !hasSuffix(entry.Name(), place.suffixes) {
				continue
			}
			if err := os.Remove(filepath.Join(place.dir, entry.Name())); err != nil {
				return removed, fmt.Errorf("remove a stale file: %w", err)
			}
			removed++
		}
	}
	return removed, nil
}

func hasSuffix(name, suffixes string) bool {
	for suffix := range strings.FieldsSeq(suffixes) {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}
