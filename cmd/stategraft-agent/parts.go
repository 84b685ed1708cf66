package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/agent/lookup"
	"github.com/stategraft/stategraft/agent/medusa"
	"github.com/stategraft/stategraft/agent/nodeserver"
	"github.com/stategraft/stategraft/agent/sstable"
	"github.com/stategraft/stategraft/api/node"
)

// contents are what was counted of a node's part in a backup; without a name, of this
// node's.
func contents(ctx context.Context, asking lookup.Config, prefix, name, of string) (node.Contents, error) {
	if of == "" {
		of = nodeName()
	}
	found, err := asking.Contents(ctx, prefix, name, of)
	if errors.Is(err, lookup.ErrNone) {
		err = fmt.Errorf("%w: %w", nodeserver.ErrNone, err)
	}
	return found, err
}

// discard removes this node's part of a backup that is not complete, while Medusa is
// kept from beginning another. Below another prefix a node of this name is another
// cluster's.
func discard(ctx context.Context, asking lookup.Config, below, name string) (node.Discarded, error) {
	own := prefix(asking.Places)
	if below != "" && below != own && (below != lookup.NoPrefix || own != "") {
		return node.Discarded{}, fmt.Errorf("%w: this node's backups are below %q, and not %q", nodeserver.ErrKept, own, below)
	}
	release, err := medusa.Hold(private(), medusa.BackupMarker)
	if errors.Is(err, medusa.ErrBusy) {
		err = fmt.Errorf("%w: %w", nodeserver.ErrKept, err)
	}
	if err != nil {
		return node.Discarded{}, err
	}
	defer release()
	done, err := asking.Discard(ctx, name)
	if errors.Is(err, lookup.ErrKept) {
		err = fmt.Errorf("%w: %w", nodeserver.ErrKept, err)
	}
	return done, err
}

// mostOfCount is how much count reads, in bytes: the directories of as many tables as a
// node can have.
const mostOfCount = 64 << 20

// count counts the tables in the directories that are on its input, for
// agent/python/counting.py.
func count(command *cobra.Command, _ []string) error {
	// The first to go where memory is short: the container is Medusa's.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	var dirs []sstable.Dir
	if err := json.NewDecoder(io.LimitReader(command.InOrStdin(), mostOfCount)).Decode(&dirs); err != nil {
		return fmt.Errorf("read the directories: %w", err)
	}
	counted := node.Contents{Version: node.ContentsVersion, Tables: sstable.CountDirs(dirs)}
	if err := json.NewEncoder(command.OutOrStdout()).Encode(counted); err != nil {
		return fmt.Errorf("write the counts: %w", err)
	}
	return nil
}
