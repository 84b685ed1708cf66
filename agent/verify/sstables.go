package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// files are those of an SSTable on the volume.
type files struct {
	table string // keyspace.name; of a secondary index, with .index after it
	dir   string
	name  string // of its files, without the component: nb-1-big
	bytes int64  // of Data.db

	whole   bool  // its Data.db has the checksum that was written with it
	rows    int64 // -1 while not counted
	scanned bool  // every row was read
}

const dataSuffix = "-Data.db"

// isIndex tells whether a table is a secondary index, whose rows are another's again.
func isIndex(table string) bool { return strings.Count(table, ".") > 1 }

func (s *files) component(name string) string { return filepath.Join(s.dir, s.name+"-"+name) }
func (s *files) data() string                 { return s.component("Data.db") }

// find lists the SSTables of a data directory: keyspace/table-id, and below that a
// directory for each secondary index. They are in one order always.
func find(dataDir string) ([]*files, error) {
	var all []*files
	keyspaces, err := directories(dataDir)
	if err != nil {
		return nil, err
	}
	for _, keyspace := range keyspaces {
		tables, err := directories(filepath.Join(dataDir, keyspace))
		if err != nil {
			return nil, err
		}
		for _, name := range tables {
			plain, _, _ := strings.Cut(name, "-") // as agent/sstable does; no table's name has one
			table, dir := keyspace+"."+plain, filepath.Join(dataDir, keyspace, name)
			if all, err = list(all, table, dir); err != nil {
				return nil, err
			}
			inner, err := directories(dir)
			if err != nil {
				return nil, err
			}
			for _, index := range inner {
				if !strings.HasPrefix(index, ".") { // snapshots, backups
					continue
				}
				if all, err = list(all, table+index, filepath.Join(dir, index)); err != nil {
					return nil, err
				}
			}
		}
	}
	return all, nil
}

// list adds the SSTables of one directory.
func list(all []*files, table, dir string) ([]*files, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), dataSuffix)
		if !ok || entry.IsDir() {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, err
		}
		all = append(all, &files{table: table, dir: dir, name: name, bytes: info.Size(), rows: -1})
	}
	return all, nil
}

func directories(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// dataDirectory is where the restore has put the data: as the webhook knows, else
// where the volume has a database's own keyspace.
func (c Config) dataDirectory() (string, error) {
	candidates := []string{filepath.Join(c.DataMount, "data"), filepath.Join(c.DataMount, "data", "data"), c.DataMount}
	if c.DataDirectory != "" {
		candidates = slices.Insert(candidates, 0, c.DataDirectory)
	}
	for _, dir := range candidates {
		for _, keyspace := range []string{"system", "system_schema"} {
			if info, err := os.Stat(filepath.Join(dir, keyspace)); err == nil && info.IsDir() {
				return dir, nil
			}
		}
	}
	if c.DataDirectory != "" { // a backup of some keyspaces only
		if _, err := os.Stat(c.DataDirectory); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return c.DataDirectory, err
		}
	}
	return "", fmt.Errorf("no restored data are at %s (STATEGRAFT_DATA_MOUNT)", c.DataMount)
}
