package backup

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// What is noted of folders: keys with a slash need a directory on the disk tier, which Anna
// does not make. Where a key comes to be when it is restored is not known, so every disk node
// needs those of all parts.
const (
	mostFolders   = 10000
	longestFolder = 1000 // in bytes
)

// folders are the directories that keys name.
type folders struct {
	found map[string]bool
	more  bool // than are noted
}

func (f *folders) add(key string) {
	if !strings.Contains(key, "/") {
		return
	}
	folder := path.Dir(key)
	switch {
	case folder == "." || folder == "/" || f.found[folder]:
	case len(f.found) >= mostFolders || len(folder) > longestFolder:
		f.more = true
	default:
		if f.found == nil {
			f.found = map[string]bool{}
		}
		f.found[strings.Clone(folder)] = true
	}
}

// folders writes them into the manifest, where the backup is encrypted for who can decrypt it.
func (b *backup) folders(f folders) error {
	if f.more {
		b.made.Notes = append(b.made.Notes, fmt.Sprintf("keys with a slash in them name more than %d directories, or very long ones: on the disk tier not all of these can be restored", mostFolders))
	}
	if len(f.found) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(f.found))
	if !b.to.Encrypted() {
		b.made.Folders = names
		return nil
	}
	content, err := json.Marshal(names)
	if err == nil {
		b.made.Sealed, err = b.to.Seal(content)
	}
	if err != nil {
		return fmt.Errorf("encrypt the names of directories: %w", err)
	}
	return nil
}
