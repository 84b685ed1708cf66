package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Own gives a database's volume to the user that it runs as, like the entry
// point of its image does when it starts as root (find … ! -user cassandra
// -exec chown), so that a restore can write before it. Only what has a wrong
// user is changed. A volume whose root is right is not walked as a whole: the
// directories right below it are looked at, and only those that are wrong are
// gone through. The count is of what was changed.
func Own(root string, owner Owner) (int, error) {
	if !owner.Set {
		return 0, nil
	}
	info, err := os.Lstat(root)
	if err != nil {
		return 0, fmt.Errorf("look at the volume: %w", err)
	}
	if uidOf(info) != owner.UID {
		return ownTree(root, root, owner)
	}
	children, err := os.ReadDir(root)
	if err != nil {
		return 0, fmt.Errorf("look at the volume: %w", err)
	}
	changed := 0
	for _, child := range children {
		path := filepath.Join(root, child.Name())
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return changed, fmt.Errorf("look at the volume: %w", err)
		}
		if uidOf(info) == owner.UID || kept(root, path) {
			continue
		}
		count, err := ownTree(root, path, owner)
		changed += count
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}

func ownTree(root, from string, owner Owner) (int, error) {
	changed := 0
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if kept(root, path) {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if uidOf(info) == owner.UID {
			return nil
		}
		changed++
		return owner.Give(path)
	})
	if err != nil {
		return changed, fmt.Errorf("give the volume to %d:%d: %w", owner.UID, owner.GID, err)
	}
	return changed, nil
}

// kept is what the file system itself keeps at the root of a volume.
func kept(root, path string) bool { return path == filepath.Join(root, "lost+found") }

func uidOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
