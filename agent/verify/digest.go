package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/stategraft/stategraft/agent/sstable"
	"github.com/stategraft/stategraft/api/node"
)

// checkFiles looks at the files of every SSTable, and counts what there is.
func (c Config) checkFiles(ctx context.Context, all []*files, v *node.Verified) error {
	tables, without := map[string]bool{}, 0
	for _, s := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !isIndex(s.table) {
			tables[s.table] = true
		}
		v.SSTables++
		v.Bytes += s.bytes
		missing, err := s.missing()
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			v.Problems = append(v.Problems, fmt.Sprintf("%s of %s: missing %s", s.name, s.table, strings.Join(missing, ", ")))
		}
		switch err := sstable.CheckDigest(ctx, s.data()); {
		case errors.Is(err, sstable.ErrNoDigest): // before 3.0 there was another
			without++
		case errors.Is(err, sstable.ErrDigest):
			v.Problems = append(v.Problems, fmt.Sprintf("%s of %s: Data.db is not what was written: it has another checksum", s.name, s.table))
		case err != nil:
			return err
		default:
			s.whole = true
			v.Digests++
		}
	}
	v.Tables = len(tables)
	if without > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%d SSTables have no checksum of their data", without))
	}
	return nil
}

// missing lists the components that the SSTable's table of contents names and that are
// not there. One without that has lost it: every release writes it.
func (s *files) missing() (names []string, err error) {
	text, err := os.ReadFile(s.component("TOC.txt"))
	if errors.Is(err, fs.ErrNotExist) {
		return []string{"TOC.txt"}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the components of %s: %w", s.data(), err)
	}
	for line := range strings.Lines(string(text)) {
		name := strings.TrimSpace(line)
		if name == "" || strings.ContainsAny(name, "/\x00") {
			continue
		}
		if _, err := os.Stat(s.component(name)); errors.Is(err, fs.ErrNotExist) {
			names = append(names, name)
		} else if err != nil {
			return nil, fmt.Errorf("look at the components of %s: %w", s.data(), err)
		}
	}
	return names, nil
}
