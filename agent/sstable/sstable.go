// Package sstable counts what is in the SSTables of a data directory, by what they say of
// themselves, and checks that they are what was written. It reads the statistics of each
// and no data.
//
//	sstable.go  the tables of a directory, of a snapshot
//	stats.go    Statistics.db
//	types.go    how long values of Cassandra's types are
//	digest.go   Digest.crc32
package sstable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stategraft/stategraft/api/node"
)

// Table is what was counted of one.
type Table = node.Table

// Dir is a directory with a table's SSTables.
type Dir struct {
	Keyspace string `json:"keyspace"`
	Table    string `json:"table"` // the id after it is left out: orders-d8cb8ea0ec6f11f19b19dfa6526835b9
	Path     string `json:"path"`
}

// The components of an SSTable that are looked at.
const (
	dataComponent   = "Data.db"
	statsFile       = "Statistics.db"
	digestComponent = "Digest.crc32"
)

// named is how SSTables are named: version, generation, which is a number or a time,
// format and component (io/sstable/Descriptor.java). Those before 2.2 begin with
// keyspace and table.
var (
	named = regexp.MustCompile(`^([a-z]{2})-([^-]+)-(big|bti)-Data\.db$`)
	older = regexp.MustCompile(`-Data\.db$`)
)

// Besides are the directories of a table's that hold none of its data.
var besides = []string{"snapshots", "backups"}

// Leave are files of a snapshot that Medusa does not back up (medusa/backup_node.py,
// NEVER_BACKED_UP).
var leave = []string{"manifest.json", "schema.cql"}

// Count counts the tables of a data directory: keyspace/table-id.
func Count(dataDir string) ([]Table, error) {
	dirs, err := find([]string{dataDir}, "")
	if err != nil {
		return nil, err
	}
	return CountDirs(dirs), nil
}

// CountSnapshot counts those of a snapshot, over all data directories of a node.
func CountSnapshot(dataDirs []string, tag string) ([]Table, error) {
	dirs, err := find(dataDirs, filepath.Join("snapshots", tag))
	if err != nil {
		return nil, err
	}
	return CountDirs(dirs), nil
}

// find finds the tables' directories, and below each the one that is meant. Nothing is
// followed that is no directory itself.
func find(dataDirs []string, below string) ([]Dir, error) {
	var dirs []Dir
	for _, root := range dataDirs {
		keyspaces, err := directories(root)
		if err != nil {
			return nil, err
		}
		for _, keyspace := range keyspaces {
			tables, err := directories(filepath.Join(root, keyspace))
			if err != nil {
				return nil, err
			}
			for _, table := range tables {
				at := filepath.Join(root, keyspace, table, below)
				if info, err := os.Lstat(at); err == nil && info.IsDir() {
					dirs = append(dirs, Dir{keyspace, table, at})
				}
			}
		}
	}
	return dirs, nil
}

func directories(at string) ([]string, error) {
	entries, err := os.ReadDir(at)
	if err != nil {
		return nil, fmt.Errorf("look for tables: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// CountDirs counts the tables of these directories, by their names. One that cannot be
// read is not counted, and spoils no other.
func CountDirs(dirs []Dir) []Table {
	found := map[string]*Table{}
	for _, d := range dirs {
		name, _, _ := strings.Cut(d.Table, "-") // no table's name has one
		name = d.Keyspace + "." + name
		if err := countDir(d.Path, name, found); err != nil {
			of(found, name).Counted = false
		}
	}
	tables := make([]Table, 0, len(found))
	for _, t := range found {
		tables = append(tables, *t)
	}
	slices.SortFunc(tables, func(a, b Table) int { return strings.Compare(a.Table, b.Table) })
	return tables
}

func of(found map[string]*Table, name string) *Table {
	if found[name] == nil {
		found[name] = &Table{Table: name, Counted: true}
	}
	return found[name]
}

// countDir counts a table, and its secondary indexes, which are in directories below
// that begin with a dot. Nothing outside of the directory is read, whatever links to it.
func countDir(at, name string, found map[string]*Table) error {
	of(found, name)
	root, err := os.OpenRoot(at)
	if err != nil {
		return fmt.Errorf("open a table's directory: %w", err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(file string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // of a live table; snapshots stay
		case err != nil:
			return err
		case e.IsDir():
			if slices.Contains(besides, file) {
				return fs.SkipDir
			}
			return nil
		case !e.Type().IsRegular() || slices.Contains(leave, e.Name()):
			return nil
		}
		t := of(found, table(name, file))
		if info, err := e.Info(); err == nil {
			t.Bytes += info.Size()
		}
		if !older.MatchString(e.Name()) {
			return nil
		}
		t.SSTables++
		if n, err := ofData(root, file); err == nil {
			t.Rows += n
		} else {
			t.Counted = false
		}
		return nil
	})
}

// table is the name of the table that a file below a directory is of.
func table(name, file string) string {
	if first, _, ok := strings.Cut(file, "/"); ok && strings.HasPrefix(first, ".") {
		return name + first
	}
	return name
}

// ofData counts the rows of the SSTable of a Data.db.
func ofData(root *os.Root, data string) (int64, error) {
	parts := named.FindStringSubmatch(path.Base(data))
	if parts == nil {
		return 0, errVersion
	}
	at := strings.TrimSuffix(data, dataComponent) + statsFile
	if info, err := root.Lstat(at); err != nil || !info.Mode().IsRegular() {
		return 0, errors.Join(errors.New("it has no statistics"), err)
	}
	file, err := root.Open(at)
	if err != nil {
		return 0, fmt.Errorf("open the statistics: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, fmt.Errorf("look at the statistics: %w", err)
	}
	return rows(file, info.Size(), parts[1])
}
