package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"

	"github.com/stategraft/stategraft/agent/anna/store"
)

// makeFolders makes the directories of keys with a slash in them, in each thread's
// directory: without them Anna drops the key and says that it has written it.
func makeFolders(data string, s Staged) error {
	all, err := places(data)
	if err != nil {
		return err
	}
	for _, p := range all {
		roots := []string{p.root}
		if !p.whole {
			if roots, err = filepath.Glob(filepath.Join(globbed(p.root), "ebs_*")); err != nil {
				return err
			}
		}
		for _, root := range roots {
			like, err := os.Stat(root)
			if err != nil {
				return err
			}
			for folder := range s.folders() {
				if err := makeBelow(root, folder, like); err != nil {
					return fmt.Errorf("make a directory for keys: %w", err)
				}
			}
		}
	}
	return nil
}

// folders are those of what is staged, and of the other parts.
func (s Staged) folders() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, pack := range s.Packs {
			for _, folder := range pack.Folders {
				if !yield(folder) {
					return
				}
			}
		}
		for _, folder := range s.Folders {
			if !yield(folder) {
				return
			}
		}
	}
}

// foldersOf are those of all parts of a backup, by their manifests, without what cannot be
// read: whoever gets that part says so.
func foldersOf(ctx context.Context, from Source, backup string, identities []age.Identity) ([]string, error) {
	entries, err := from.Backups(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for backup %s: %w", backup, err)
	}
	all := map[string]bool{}
	for _, e := range entries {
		if e.Name != backup || e.Finished.IsZero() {
			continue
		}
		m, err := from.Manifest(ctx, backup, e.Node)
		switch {
		case errors.Is(err, store.ErrDamaged), errors.Is(err, store.ErrNoBackup), errors.Is(err, store.ErrUnfinished):
			continue
		case err != nil:
			return nil, fmt.Errorf("look up backup %s of node %s: %w", backup, e.Node, err)
		}
		folders := m.Folders
		if len(m.Sealed) > 0 {
			content, err := store.Unseal(m.Sealed, identities)
			if err != nil || json.Unmarshal(content, &folders) != nil {
				continue
			}
		}
		for _, folder := range folders {
			all[folder] = true
		}
	}
	return sorted(all), nil
}

// globbed is a path in which filepath.Glob sees no pattern.
func globbed(path string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(path)
}

// makeBelow makes a directory that a key names, each with what it has in common with
// another. A name that leads out is left alone, and so is one that no directory can have.
func makeBelow(root, folder string, as os.FileInfo) error {
	folder = filepath.Clean(folder)
	if !filepath.IsLocal(folder) || strings.ContainsRune(folder, 0) || len(folder) > 1000 || strings.HasPrefix(folder, own) {
		return nil
	}
	path := root
	for part := range strings.SplitSeq(folder, "/") {
		if len(part) > 255 {
			return nil
		}
		path = filepath.Join(path, part)
		info, err := os.Lstat(path)
		if err == nil && !info.IsDir() {
			return nil // a key's file; the other key cannot be on this disk
		}
		if err == nil {
			continue
		}
		if err := like(path, as); err != nil {
			return err
		}
	}
	return nil
}
