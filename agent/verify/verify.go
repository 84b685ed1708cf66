// Package verify looks at a node's data that a backup was restored to on trial,
// with the tools of the database's own image, before any database has seen them.
//
//	verify.go    Run: all of it
//	sstables.go  which SSTables there are
//	digest.go    whether their files are whole
//	tool.go      where the image has sstablemetadata, or what it consists of
//	scan.go      what that prints
//	count.go     the rows, by running it on some SSTables at a time
//	compare.go   whether they are those that the backup counted
//
// What it finds is a result, good or bad; an error is only that it could not look.
package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/stategraft/stategraft/api/node"
)

// Config is what the container's environment says.
type Config struct {
	Node          string // of the backup
	DataMount     string // where the data volume is mounted
	DataDirectory string // below it; empty where only the volume is known
	Contents      string // file with node.Contents; it is not there where the backup has none
	Temp          string // directory for what the tool needs

	Env  func(string) string // os.Getenv
	Root string              // before the places in which images keep the tool; empty but in tests
	Heap int                 // of the tool's Java, in MiB; 0 for the usual
	// Batch is how many SSTables the tool is given at a time; 0 for the usual.
	Batch int
	Log   *slog.Logger
}

// Run looks at every SSTable.
func Run(ctx context.Context, c Config) (node.Verified, error) {
	v := node.Verified{Node: c.Node, Method: node.NotCounted}
	recorded, err := c.recorded()
	if err != nil {
		return v, err
	}
	v.Recorded = recorded != nil
	dir, err := c.dataDirectory()
	if err != nil {
		return v, err
	}
	all, err := find(dir)
	if err != nil {
		return v, fmt.Errorf("look for SSTables in %s: %w", dir, err)
	}
	c.Log.Info("verifying", "node", c.Node, "directory", dir, "sstables", len(all), "counts_of_the_backup", v.Recorded)
	if len(all) == 0 {
		v.Problems = append(v.Problems, "the restored data have no SSTable at all")
		return v, nil
	}
	if err := c.checkFiles(ctx, all, &v); err != nil {
		return v, err
	}
	have, err := c.count(ctx, dir, all, &v)
	if err != nil {
		return v, err
	}
	compare(recorded, have, &v)
	c.Log.Info("verified", "sound", v.Sound(), "tables", v.Tables, "sstables", v.SSTables, "rows", v.Rows, "method", v.Method,
		"digests", v.Digests, "compared", v.Compared, "differences", len(v.Differences), "problems", len(v.Problems))
	return v, nil
}

// recorded are the counts of the backup; nil where it has none.
func (c Config) recorded() (*node.Contents, error) {
	if c.Contents == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.Contents)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the counts of the backup: %w", err)
	}
	var contents node.Contents
	if err := json.Unmarshal(text, &contents); err != nil {
		return nil, fmt.Errorf("read the counts of the backup in %s: %w", c.Contents, err)
	}
	if contents.Version > node.ContentsVersion {
		return nil, fmt.Errorf("the counts of the backup are of version %d, and this agent knows %d", contents.Version, node.ContentsVersion)
	}
	return &contents, nil
}
