package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stategraft/stategraft/api/node"
)

// dse is the keyspace under which Medusa files what DataStax Enterprise keeps
// beside the data directory (medusa/restore_node.py, maybe_restore_section).
const dse = "dse"

// Verify checks that the data directory holds exactly the files of the backup
// in each of its tables: Medusa replaces a table's directory as a whole, so a
// file too many means that it did not. In mode Remote it leaves out what belongs
// to the node.
func Verify(dataDirectory string, tables []Table, remote bool) error {
	for _, table := range tables {
		if remote && table.Keyspace == "system_auth" {
			continue // the target's logins stay as they are
		}
		if remote && table.itsNodes() {
			table.Files = nil
		}
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
	if errors.Is(err, fs.ErrNotExist) && len(want) > 0 {
		return blame(node.CauseLost, err)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for name, size := range want {
		have, ok := found[name]
		if !ok {
			return blame(node.CauseLost, fmt.Errorf("file %s is missing", name))
		}
		if have != size {
			return blame(node.CauseLost, fmt.Errorf("file %s has %d bytes, not %d", name, have, size))
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

// itsNodes tells of a table whether it holds what makes a node itself, or its place
// in a ring: its host id, tokens and the cluster's name, the nodes that it knows, the
// ranges that it was sent, and those it is being sent. Another node does not start
// with them, or joins with the wrong tokens.
func (t Table) itsNodes() bool {
	if t.Keyspace != "system" {
		return false
	}
	for _, name := range []string{"local", "peers", "peers_v2", "available_ranges", "available_ranges_v2", "transferred_ranges", "transferred_ranges_v2"} {
		if strings.HasPrefix(t.Name, name+"-") {
			return true
		}
	}
	return false
}

// removeForeign removes, after a restore of another cluster's backup, what this
// node knew before of itself and of the schema, and what the other did: of keyspaces
// system and system_schema only what is in the backup stays. Medusa goes by the
// backup's tables alone, so one that only this version of the database has would
// stay from the node's first start.
func removeForeign(dataDirectory string, tables []Table) error {
	stays := map[string]bool{}
	for _, t := range tables {
		stays[t.Keyspace+"/"+t.Name] = !t.itsNodes()
	}
	for _, keyspace := range []string{"system", "system_schema"} {
		entries, err := os.ReadDir(filepath.Join(dataDirectory, keyspace))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look for what the node was before: %w", err)
		}
		for _, entry := range entries {
			if stays[keyspace+"/"+entry.Name()] {
				continue
			}
			if err := os.RemoveAll(filepath.Join(dataDirectory, keyspace, entry.Name())); err != nil {
				return fmt.Errorf("remove what the node was before: %w", err)
			}
		}
	}
	return nil
}

// removeStale removes what Medusa leaves alone and what does not go with the
// restored data: saved caches hold positions in files that are gone, and hints
// are writes after the backup that would be played back to other nodes.
func removeStale(l layout) (int, error) {
	removed := 0
	for _, at := range l {
		suffixes := map[string]string{partCaches: ".db .crc", partHints: ".hints .crc32"}[at.Part]
		if suffixes == "" {
			continue
		}
		entries, err := os.ReadDir(at.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return removed, fmt.Errorf("look for stale files: %w", err)
		}
		for _, entry := range entries {
			if entry.IsDir() || !hasSuffix(entry.Name(), suffixes) {
				continue
			}
			if err := os.Remove(filepath.Join(at.Path, entry.Name())); err != nil {
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
