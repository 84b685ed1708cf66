// Package files writes files that are never half there, and knows the places
// that the containers of a pod share.
package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Owner is who a file is given to. The zero value leaves it to who writes it.
type Owner struct {
	Set      bool
	UID, GID int
}

// ParseOwner reads uid:gid.
func ParseOwner(text string) (Owner, error) {
	if text == "" {
		return Owner{}, nil
	}
	user, group, ok := strings.Cut(text, ":")
	uid, err := strconv.ParseUint(user, 10, 31)
	gid, err2 := strconv.ParseUint(group, 10, 31)
	if !ok || err != nil || err2 != nil {
		return Owner{}, fmt.Errorf("%q is not uid:gid", text)
	}
	return Owner{true, int(uid), int(gid)}, nil
}

// Give changes the owner of a path, not following a symlink.
func (o Owner) Give(path string) error {
	if !o.Set {
		return nil
	}
	if err := os.Lchown(path, o.UID, o.GID); err != nil {
		return fmt.Errorf("give %s to %d:%d: %w", path, o.UID, o.GID, err)
	}
	return nil
}

// MakeDir makes a directory and those above it, each given to the owner.
func MakeDir(path string, mode fs.FileMode, owner Owner) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := MakeDir(parent, mode, owner); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory: %w", err)
	}
	return owner.Give(path)
}

// Write replaces a file in one step: a reader sees the old or the new content,
// and after a crash one of them is there.
func Write(path string, content []byte, mode fs.FileMode, owner Owner) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(temporary.Name()) // gone already where all went well
	_, err = temporary.Write(content)
	if err == nil {
		err = temporary.Chmod(mode)
	}
	if err == nil {
		err = temporary.Sync()
	}
	if closing := temporary.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = owner.Give(temporary.Name())
	}
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// WriteJSON replaces a file by a value in JSON and a line feed.
func WriteJSON(path string, value any, mode fs.FileMode, owner Owner) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return Write(path, append(content, '\n'), mode, owner)
}

// SyncDir makes the names in a directory durable. File systems that cannot do
// so for a directory say EINVAL.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// SyncVolume makes all that was written to the file system of path durable.
func SyncVolume(path string) error {
	// Package syscall has no name for syncfs(2).
	number, ok := map[string]uintptr{"amd64": 306, "arm64": 267}[runtime.GOARCH]
	if !ok {
		syscall.Sync()
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, _, errno := syscall.Syscall(number, dir.Fd(), 0, 0); errno != 0 {
		return fmt.Errorf("sync the volume of %s: %w", path, errno)
	}
	return nil
}

// Free is the room in bytes that an ordinary user has on the volume of path.
func Free(path string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(path, &stat); err != nil {
		return 0, fmt.Errorf("ask for the room on %s: %w", path, err)
	}
	return int64(stat.Bavail) * stat.Bsize, nil
}

// Room is the size of the volume of path, and the room that an ordinary user has
// on it, in bytes.
func Room(path string) (size, free int64, err error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(path, &stat); err != nil {
		return 0, 0, fmt.Errorf("ask for the room on %s: %w", path, err)
	}
	return int64(stat.Blocks) * stat.Bsize, int64(stat.Bavail) * stat.Bsize, nil
}
