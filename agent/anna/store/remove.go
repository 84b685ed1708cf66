package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stategraft/stategraft/agent/anna/manifest"
)

// Delete removes the parts of those nodes (all nodes where none is given) of a backup,
// finished or not, and tells how many objects those were. Packs that another backup of the
// node uses stay, and so do those that a running one may use. A part that is not there is
// none to remove. Interrupted, it is done by asking again.
func (s *Store) Delete(ctx context.Context, name string, nodes ...string) (objects int, err error) {
	if err := CheckNames(name, nodes...); err != nil {
		return 0, err
	}
	if len(nodes) == 0 {
		parts, err := s.Parts(ctx, name)
		if err != nil {
			return 0, err
		}
		for _, e := range parts {
			nodes = append(nodes, e.Node)
		}
	}
	var problems []error
	for _, node := range nodes {
		n, err := s.remove(ctx, name, node)
		objects += n
		if err != nil {
			problems = append(problems, fmt.Errorf("delete backup %s of node %s: %w", name, node, err))
		}
	}
	return objects, errors.Join(problems...)
}

// Discard removes an unfinished part of a node: ErrExists where it is complete.
func (s *Store) Discard(ctx context.Context, name, node string) (objects int, err error) {
	if err := CheckNames(name, node); err != nil {
		return 0, err
	}
	complete, err := s.exists(ctx, s.manifestKey(name, node))
	switch {
	case err != nil:
		return 0, fmt.Errorf("discard backup %s of node %s: %w", name, node, err)
	case complete:
		return 0, fmt.Errorf("discard backup %s of node %s: it is complete: %w", name, node, ErrExists)
	}
	if objects, err = s.remove(ctx, name, node); err != nil {
		return objects, fmt.Errorf("discard backup %s of node %s: %w", name, node, err)
	}
	return objects, nil
}

// remove removes a node's part. The mark of its start goes last, with the names of its
// packs in it: so what an interruption leaves is found again.
func (s *Store) remove(ctx context.Context, name, node string) (int, error) {
	started, begun, err := s.started(ctx, name, node)
	if err != nil {
		return 0, err
	}
	m, err := s.Manifest(ctx, name, node)
	complete := err == nil || errors.Is(err, ErrDamaged)
	if !complete && !errors.Is(err, ErrNoBackup) && !errors.Is(err, ErrUnfinished) {
		return 0, err
	}
	mine := append(slices.Clone(started.Packs), objectsOf(m)...)
	there, err := s.Packs(ctx, node)
	if err != nil {
		return 0, err
	}
	for pack := range there {
		if madeBy(strings.TrimPrefix(pack, s.packsKey(node))) == name {
			mine = append(mine, pack)
		}
	}
	mine = unique(mine)
	used, err := s.usedByOthers(ctx, name, node, mine)
	if err != nil {
		return 0, err
	}
	if complete {
		content, err := json.Marshal(Started{Name: name, Node: node, Started: m.Started, Packs: mine})
		if err != nil {
			return 0, err
		}
		if err := s.bucket.WriteAll(ctx, s.startedKey(name, node), content, s.options(max(len(content)+1, partSize))); err != nil {
			return 0, fmt.Errorf("write %s: %w", s.startedKey(name, node), err)
		}
		begun = true
	}
	keys := []string{s.manifestKey(name, node), s.indexKey(name, node)}
	for _, pack := range mine {
		if _, is := there[pack]; is && !used[pack] {
			keys = append(keys, pack)
		}
	}
	if begun {
		keys = append(keys, s.startedKey(name, node))
	}
	return s.drop(ctx, keys)
}

func objectsOf(m manifest.Manifest) []string {
	var names []string
	for _, p := range m.Packs {
		names = append(names, p.Object)
	}
	return names
}

func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// madeBy is the backup that made a pack, of the last part of the pack's name.
func madeBy(pack string) string {
	i := strings.LastIndexByte(pack, '.')
	if i < 0 {
		return ""
	}
	return pack[:i]
}

// started reads the mark of a start. One that cannot be read has nothing in it.
func (s *Store) started(ctx context.Context, name, node string) (m Started, begun bool, err error) {
	key := s.startedKey(name, node)
	content, err := s.bucket.ReadAll(ctx, key)
	if notFound(err) {
		return m, false, nil
	}
	if err != nil {
		return m, false, fmt.Errorf("read %s: %w", key, err)
	}
	if err := json.Unmarshal(content, &m); err != nil {
		return Started{}, true, nil
	}
	return m, true, nil
}

// usedByOthers tells which of these packs another backup of the node uses.
func (s *Store) usedByOthers(ctx context.Context, name, node string, packs []string) (map[string]bool, error) {
	used := map[string]bool{}
	if len(packs) == 0 {
		return used, nil
	}
	entries, err := s.Backups(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Node != node || e.Name == name {
			continue
		}
		var names []string
		if e.Complete() {
			m, err := s.Manifest(ctx, e.Name, node)
			switch {
			case errors.Is(err, ErrNoBackup), errors.Is(err, ErrUnfinished):
				continue // it went meanwhile
			case errors.Is(err, ErrDamaged):
				return nil, fmt.Errorf("which packs are still used is not known: %w; that backup cannot be restored: delete it first", err)
			case err != nil:
				return nil, err
			}
			names = objectsOf(m)
		} else {
			m, _, err := s.started(ctx, e.Name, node)
			if err != nil {
				return nil, err
			}
			names = m.Packs
		}
		for _, n := range names {
			used[n] = true
		}
	}
	return used, nil
}

// drop deletes objects in this order, and counts those that were there.
func (s *Store) drop(ctx context.Context, keys []string) (int, error) {
	n := 0
	for _, key := range keys {
		err := s.bucket.Delete(ctx, key)
		switch {
		case err == nil:
			n++
		case !notFound(err):
			return n, fmt.Errorf("delete %s: %w", key, err)
		}
	}
	return n, nil
}
