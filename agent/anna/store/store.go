// Package store is the storage of Anna's backups: what is there, and how it is read,
// written and removed. Below the prefix of the storage it has
//
//	anna/backups/<name>/<node>.started.json  written first: Started
//	anna/backups/<name>/<node>.json          written last: the manifest
//	anna/packs/<node>/<name>.<number>        packs, each made by the backup <name>
//	anna/index/<node>/<name>                 what the packs of the newest backup hold
//
// A part without its manifest is unfinished. Packs are never written twice, and a backup
// may use those of earlier ones of the same node.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"gocloud.dev/blob"

	"github.com/stategraft/stategraft/agent/anna/manifest"
)

// Errors of the storage that a caller decides by.
var (
	ErrNoBackup   = errors.New("the storage has no such backup")
	ErrUnfinished = errors.New("the node's part of the backup was not finished")
	ErrDamaged    = errors.New("the backup is damaged") // lost packs and wrong checksums too
	ErrExists     = errors.New("the backup is there already")
	// ErrNoKey says that none of the given keys decrypts the backup.
	ErrNoKey = errors.New("the backup is encrypted, and no key that was given decrypts it")
)

// Store is a bucket with backups. It is safe for concurrent use.
type Store struct {
	bucket     *blob.Bucket
	config     Config
	recipients []age.Recipient
}

// Close ends it.
func (s *Store) Close() error { return s.bucket.Close() }

// Encrypted tells whether packs are encrypted when they are written.
func (s *Store) Encrypted() bool { return len(s.recipients) > 0 }

// With is the same bucket with another prefix.
func (s *Store) With(prefix string) *Store {
	other := *s
	other.config.Prefix = prefix
	return &other
}

// The ends of the names of a part's objects.
const (
	manifestEnd = ".json"
	startedEnd  = ".started.json"
)

// key is the full name of an object.
func (s *Store) key(rest string) string {
	if s.config.Prefix == "" {
		return "anna/" + rest
	}
	return s.config.Prefix + "/anna/" + rest
}

func (s *Store) manifestKey(name, node string) string {
	return s.key("backups/" + name + "/" + node + manifestEnd)
}

func (s *Store) startedKey(name, node string) string {
	return s.key("backups/" + name + "/" + node + startedEnd)
}

func (s *Store) indexKey(name, node string) string { return s.key("index/" + node + "/" + name) }

func (s *Store) packsKey(node string) string { return s.key("packs/" + node + "/") }

// CheckNames refuses a name of a backup, or of a node, that cannot be part of an object's name.
func CheckNames(name string, nodes ...string) error {
	for _, part := range append([]string{name}, nodes...) {
		if part == "" || strings.ContainsAny(part, "/\\") || strings.HasPrefix(part, ".") || strings.ContainsFunc(part, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%q is no name of a backup or a node", part)
		}
	}
	for _, node := range nodes {
		if strings.HasSuffix(node+".json", startedEnd) {
			return fmt.Errorf("%q is no name of a node: it ends as the mark of a start does", node)
		}
	}
	return nil
}

// Entry is a node's part of a backup in a list.
type Entry struct {
	Name, Node        string
	Started, Finished time.Time // when the objects were written; Finished is zero where there is no manifest
}

// Complete tells whether it has a manifest.
func (e Entry) Complete() bool { return !e.Finished.IsZero() }

// Backups lists all parts, by name and node. It opens none of them.
func (s *Store) Backups(ctx context.Context) ([]Entry, error) { return s.entries(ctx, "") }

// Parts lists those of one backup; there may be none.
func (s *Store) Parts(ctx context.Context, name string) ([]Entry, error) {
	if err := CheckNames(name); err != nil {
		return nil, err
	}
	return s.entries(ctx, name+"/")
}

func (s *Store) entries(ctx context.Context, below string) ([]Entry, error) {
	type part struct{ name, node string }
	root := s.key("backups/")
	found := map[part]Entry{}
	err := s.list(ctx, root+below, func(o *blob.ListObject) {
		name, file, ok := strings.Cut(strings.TrimPrefix(o.Key, root), "/")
		node, manifest := strings.CutSuffix(file, manifestEnd)
		node, started := strings.CutSuffix(node, strings.TrimSuffix(startedEnd, manifestEnd))
		if !ok || !manifest || CheckNames(name, node) != nil {
			return // nothing of ours
		}
		e := found[part{name, node}]
		e.Name, e.Node = name, node
		if started {
			e.Started = o.ModTime
		} else {
			e.Finished = o.ModTime
		}
		found[part{name, node}] = e
	})
	if err != nil {
		return nil, fmt.Errorf("list the backups: %w", err)
	}
	all := make([]Entry, 0, len(found))
	for _, e := range found {
		if e.Started.IsZero() {
			e.Started = e.Finished
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return 2*strings.Compare(a.Name, b.Name) + strings.Compare(a.Node, b.Node)
	})
	return all, nil
}

// list gives the objects whose names begin so.
func (s *Store) list(ctx context.Context, prefix string, yield func(*blob.ListObject)) error {
	objects := s.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		o, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !o.IsDir {
			yield(o)
		}
	}
}

// exists tells whether the object is there.
func (s *Store) exists(ctx context.Context, key string) (bool, error) {
	_, err := s.bucket.Attributes(ctx, key)
	if notFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Manifest reads that of a node's part: ErrNoBackup, ErrUnfinished, ErrDamaged.
func (s *Store) Manifest(ctx context.Context, name, node string) (manifest.Manifest, error) {
	if err := CheckNames(name, node); err != nil {
		return manifest.Manifest{}, err
	}
	key := s.manifestKey(name, node)
	content, err := s.bucket.ReadAll(ctx, key)
	if notFound(err) {
		return manifest.Manifest{}, s.noManifest(ctx, name, node)
	}
	if err != nil {
		return manifest.Manifest{}, fmt.Errorf("read %s: %w", key, err)
	}
	m, err := manifest.Parse(content)
	switch {
	case errors.Is(err, manifest.ErrDamaged):
		return manifest.Manifest{}, fmt.Errorf("%w: %s: %w", ErrDamaged, key, err)
	case err != nil:
		return manifest.Manifest{}, fmt.Errorf("%s: %w", key, err)
	case m.Name != name || m.Node != node:
		return manifest.Manifest{}, fmt.Errorf("%w: %s is the manifest of backup %s of node %s", ErrDamaged, key, m.Name, m.Node)
	}
	return m, nil
}

// noManifest says which error it is that there is no manifest.
func (s *Store) noManifest(ctx context.Context, name, node string) error {
	started, err := s.exists(ctx, s.startedKey(name, node))
	switch {
	case err != nil:
		return fmt.Errorf("look for backup %s of node %s: %w", name, node, err)
	case started:
		return fmt.Errorf("backup %s of node %s: %w", name, node, ErrUnfinished)
	}
	return fmt.Errorf("backup %s of node %s: %w", name, node, ErrNoBackup)
}

// Packs are the packs of a node that are in the storage, with their sizes.
func (s *Store) Packs(ctx context.Context, node string) (map[string]int64, error) {
	if err := CheckNames("-", node); err != nil {
		return nil, err
	}
	found := map[string]int64{}
	if err := s.list(ctx, s.packsKey(node), func(o *blob.ListObject) { found[o.Key] = o.Size }); err != nil {
		return nil, fmt.Errorf("list the packs of node %s: %w", node, err)
	}
	return found, nil
}
