package restore

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// access is access(2), but where a test is a user who may not.
var access = syscall.Access

const accessChange = 2 | 1 // W_OK and X_OK

// removable tells what cannot be taken away, before anything is: a directory of
// another user's would end it in the middle, each time anew. replaced are the tables
// that go; nil for all.
func (l layout) removable(replaced map[string]bool) error {
	for _, at := range l {
		root, err := at.real()
		if err != nil {
			return err
		}
		if root == "" {
			continue
		}
		err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			name, _ := filepath.Rel(root, path)
			switch {
			case path != root && l.foreign(at, filepath.Join(at.Path, name)), path != root && stays(at, name, replaced):
				if entry.IsDir() {
					return fs.SkipDir
				}
				return nil
			case err != nil:
				return err
			case !entry.IsDir():
				return nil
			}
			if err := access(path, accessChange); err != nil {
				if inside, unread := os.ReadDir(path); unread != nil || len(inside) > 0 || path == root {
					return fmt.Errorf("user %d cannot remove what is in %s: %w", os.Getuid(), path, err)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("the %s directory cannot be replaced: %w", at.Part, err)
		}
	}
	return nil
}

// stays tells of what is in a data directory whether it is left alone.
func stays(at place, name string, replaced map[string]bool) bool {
	if at.Part != partData || replaced == nil {
		return false
	}
	parts := strings.SplitN(name, "/", 3)
	if len(parts) > 1 {
		return !replaced[parts[0]+"/"+parts[1]]
	}
	for table := range replaced {
		if strings.HasPrefix(table, name+"/") {
			return false
		}
	}
	return true
}
