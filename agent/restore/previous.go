package restore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/node"
)

// Previous are the data that are kept on a volume from before its restores: those
// that are complete, and that a restore has replaced.
func Previous(mount string) ([]node.Previous, error) {
	m, err := ReadMarker(mount)
	if err != nil {
		return nil, err
	}
	var all []node.Previous
	for _, k := range m.kept() {
		if _, err := readSeal(mount, k); err == nil {
			all = append(all, node.Previous{ID: k.ID, Since: k.Since, Bytes: k.Bytes})
		}
	}
	return all, nil
}

// prune removes what the marker does not name.
func (c Config) prune(m Marker) error {
	entries, err := os.ReadDir(previousDir(c.DataMount))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the data that are kept: %w", err)
	}
	for _, entry := range entries {
		if m.names(entry.Name()) {
			continue
		}
		step("prune")
		if err := os.RemoveAll(filepath.Join(previousDir(c.DataMount), entry.Name())); err != nil {
			return fmt.Errorf("remove data that were kept: %w", err)
		}
	}
	return nil
}

// readSeal reads the seal of kept data, without which they are not complete.
func readSeal(mount string, k *Kept) (seal, error) {
	var s seal
	content, err := os.ReadFile(filepath.Join(previousDir(mount), k.Dir, sealName))
	if err == nil {
		err = json.Unmarshal(content, &s)
	}
	if err == nil && len(s.Layout) == 0 {
		err = errors.New("it names no place")
	}
	if err != nil {
		return s, fmt.Errorf("read the seal of the data from before: %w", err)
	}
	return s, nil
}

// exclusive is the size of the kept files that have no other name: what removing
// them gives back.
func (c Config) exclusive(k *Kept) int64 {
	var bytes int64
	root := filepath.Join(previousDir(c.DataMount), k.Dir)
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Dir(path) == root {
			return nil // the seal and the list are ours
		}
		if info, err := entry.Info(); err == nil {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink == 1 {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}

// duplicate copies a file, with its mode, owner and time: a transaction's log, by
// which Cassandra tidies up when it starts, names the times of the files that it
// removes, and other times keep it from starting (LogFile.verifyRecord).
func duplicate(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		err = errors.Join(err, target.Chown(int(stat.Uid), int(stat.Gid)))
	}
	return errors.Join(err, target.Chmod(info.Mode().Perm()), target.Close(), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// putBack fills the places with kept data, which stay where they are.
func (c Config) putBack(k *Kept, l layout, list map[string][]entry) error {
	for _, at := range l {
		part := filepath.Join(previousDir(c.DataMount), k.Dir, at.Part)
		if len(list[at.Part]) == 0 {
			continue
		}
		if err := files.MakeDir(at.Path, 0o755, files.Owner{}); err != nil {
			return err
		}
		for _, e := range list[at.Part] {
			step("put")
			from, to := filepath.Join(part, e.Path), filepath.Join(at.Path, e.Path)
			if e.Mode.IsDir() {
				if err := os.Mkdir(to, 0o700|e.Mode.Perm()); err != nil && !errors.Is(err, fs.ErrExist) {
					return err
				}
				continue
			}
			err := link(from, to)
			if crossing(err) {
				err = duplicate(from, to)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// list reads what was set aside, and checks that it is all there.
func (c Config) list(k *Kept, s seal) (map[string][]entry, error) {
	dir := filepath.Join(previousDir(c.DataMount), k.Dir)
	var list map[string][]entry
	content, err := os.ReadFile(filepath.Join(dir, listName))
	if err == nil {
		err = json.Unmarshal(content, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of the data from before: %w", err)
	}
	count := 0
	for _, at := range s.Layout {
		files, err := check(filepath.Join(dir, at.Part), list[at.Part])
		if err != nil {
			return nil, fmt.Errorf("the data from before are not complete: %w", err)
		}
		count += files
	}
	if count != s.Files {
		return nil, fmt.Errorf("the data from before are not complete: %d files, not %d", count, s.Files)
	}
	return list, nil
}

// check tells whether all of the list is below dir, and counts the files.
func check(dir string, list []entry) (int, error) {
	count := 0
	for _, e := range list {
		info, err := os.Lstat(filepath.Join(dir, e.Path))
		if err != nil {
			return count, err
		}
		if info.IsDir() != e.Mode.IsDir() || !e.Mode.IsDir() && info.Size() != e.Size {
			return count, fmt.Errorf("%s has %d bytes, not %d", filepath.Join(dir, e.Path), info.Size(), e.Size)
		}
		if !e.Mode.IsDir() {
			count++
		}
	}
	return count, nil
}
