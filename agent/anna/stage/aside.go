package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/stategraft/stategraft/agent/files"
)

// setAside takes the disk tier's data out of the node's way, once for each id: it never
// lists them, but it merges a key with its file when that is written again, so a replay
// would not go back behind them. A run that was stopped anywhere is made good by the next
// one. kept tells that they are still there.
//
// The data move by renaming, into a directory of ours on the same volume, and the
// directories that they were in are made again, empty: Anna makes none.
func setAside(data, id string, keep func(p place) keeping) (kept bool, err error) {
	all, err := places(data)
	if err != nil {
		return false, err
	}
	for _, p := range all {
		m, err := p.read()
		if err != nil {
			return kept, err
		}
		done := m.find(id)
		if done == nil {
			if done, err = p.setAside(m, id, keep(p)); err != nil {
				return kept, fmt.Errorf("set the disk tier's data aside: %w", err)
			}
		} else if err := p.prune(m); err != nil {
			return kept, err
		}
		kept = kept || done.Kept
	}
	return kept, nil
}

func (p place) setAside(m marker, id string, keep keeping) (*mark, error) {
	step("aside")
	moved, err := p.move(id)
	if err != nil {
		return nil, err
	}
	bytes, err := p.remake(moved)
	if err != nil {
		return nil, err
	}
	m.Undoing = ""
	return p.finish(m, mark{ID: id, Bytes: bytes}, keep)
}

// finish writes down that something is done, and removes what nobody can ask for any more.
func (p place) finish(m marker, done mark, keep keeping) (*mark, error) {
	done.Since = time.Now().UTC().Truncate(time.Second)
	done.Kept = keep != dropped && !empty(p.previous(done.ID))
	done.ForRoom = done.Kept && keep == keptForRoom
	for i := range m.Done {
		m.Done[i].Kept = false
	}
	m.Done = append(m.Done, done)
	if err := files.SyncVolume(p.root); err != nil {
		return nil, err
	}
	step("mark")
	if err := p.write(m); err != nil {
		return nil, err
	}
	step("marked")
	return &done, p.prune(m)
}

// prune removes the data that the marker does not call kept.
func (p place) prune(m marker) error {
	root := filepath.Join(p.dir(), "previous")
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the data that are kept: %w", err)
	}
	for _, entry := range entries {
		named := false
		for _, k := range m.Done {
			named = named || k.Kept && safe(k.ID) == entry.Name()
		}
		if named {
			continue
		}
		step("prune")
		if err := os.RemoveAll(filepath.Join(root, entry.Name())); err != nil {
			return fmt.Errorf("remove data that were kept: %w", err)
		}
	}
	return nil
}

// move renames what is the database's into the directory of an id, and gives that.
func (p place) move(id string) (string, error) {
	to := p.previous(id)
	if err := files.MakeDir(to, 0o755, files.Owner{}); err != nil {
		return to, err
	}
	names, err := p.data()
	if err != nil {
		return to, err
	}
	for _, name := range names {
		from, at := filepath.Join(p.root, name), filepath.Join(to, name)
		if _, err := os.Lstat(at); err == nil {
			// It was moved before the last try was stopped, and something has made it again
			// since: the setup container, or a node that was let run without the restore.
			if bare(from) {
				step("remove")
				if err := os.RemoveAll(from); err != nil {
					return to, err
				}
				continue
			}
			if at, err = unused(at); err != nil {
				return to, err
			}
		}
		step("move")
		if err := os.Rename(from, at); err != nil {
			return to, fmt.Errorf("%w; user %d needs write access to the volume", err, os.Getuid())
		}
	}
	if err := files.SyncDir(to); err != nil {
		return to, err
	}
	return to, files.SyncDir(p.root)
}

// again is between a name and a number where something of that name was moved twice.
const again = "+"

func unused(path string) (string, error) {
	for n := 1; n < 1000; n++ {
		other := path + again + strconv.Itoa(n)
		if _, err := os.Lstat(other); errors.Is(err, fs.ErrNotExist) {
			return other, nil
		}
	}
	return "", fmt.Errorf("%s was moved too often", path)
}

// remake makes the directories again that are in a moved tree, and counts its bytes.
func (p place) remake(moved string) (bytes int64, err error) {
	err = filepath.WalkDir(moved, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == moved {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !entry.IsDir() {
			bytes += info.Size()
			return nil
		}
		name, err := filepath.Rel(moved, path)
		if err != nil {
			return err
		}
		step("remake")
		return like(filepath.Join(p.root, name), info)
	})
	return bytes, err
}

// like makes a directory with the mode and, as root, the owner of another.
func like(path string, info fs.FileInfo) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		if err := os.Chown(path, int(stat.Uid), int(stat.Gid)); err != nil {
			return err
		}
	}
	return os.Chmod(path, info.Mode().Perm())
}

// bare tells that there are directories only.
func bare(path string) bool {
	err := filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			err = fs.ErrExist
		}
		return err
	})
	return err == nil
}

// empty tells that a directory has nothing in it, or is not there.
func empty(path string) bool {
	entries, err := os.ReadDir(path)
	return err != nil || len(entries) == 0
}
