package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/nodeserver"
	"github.com/stategraft/stategraft/api/node"
)

// lookupLimit is for one answer of the storage: less than the controllers wait for it, so
// that they hear why there is none.
const lookupLimit = 110 * time.Second

// nodeConfig is what the node's service answers.
func (s *server) nodeConfig() nodeserver.Config {
	c := nodeserver.Config{
		Address: s.Address, Port: s.NodePort, TLSDir: s.TLSDir,
		Report: s.report, Backups: s.backups, Backup: s.backup, Contents: s.contents, Discard: s.discard, Replay: s.replays.ask,
		Secrets: s.Secrets, Log: s.Log,
	}
	if s.Adopted {
		c.Replay = s.replays.decline
	}
	return c
}

// mostGists is how many are kept, over all backups.
const mostGists = 20000

// gists are kept, by prefix, backup and node.
type gists struct {
	mutex sync.Mutex
	kept  map[[3]string]gist
}

func (g *gists) get(key [3]string) (gist, bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	found, ok := g.kept[key]
	return found, ok
}

func (g *gists) put(key [3]string, value gist) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if len(g.kept) >= mostGists || g.kept == nil {
		g.kept = map[[3]string]gist{}
	}
	g.kept[key] = value
}

// looking is a look into the storage below a prefix.
type looking struct {
	storage
	*server
	prefix string
}

// look does something with the storage below a prefix, within the limit.
func (s *server) look(ctx context.Context, prefix string, do func(ctx context.Context, l looking) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lookupLimit, fmt.Errorf("no answer from the storage within %v", lookupLimit))
	defer cancel()
	from, done, err := s.shelf.borrow(ctx, prefix)
	if err != nil {
		return err
	}
	defer done()
	err = do(ctx, looking{from, s, s.shelf.under(prefix)})
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return context.Cause(ctx)
	}
	return err
}

// backups lists the backups below a prefix; an empty one is the node's own.
func (s *server) backups(ctx context.Context, prefix string) (list node.Backups, err error) {
	err = s.look(ctx, prefix, func(ctx context.Context, l looking) error {
		entries, err := l.Backups(ctx)
		if err != nil {
			return fmt.Errorf("list the backups: %w", err)
		}
		list = node.Backups{Prefix: l.prefix, Backups: []node.Summary{}}
		for _, g := range group(entries) {
			ring, err := l.ring(ctx, g)
			if err != nil {
				return err
			}
			list.Backups = append(list.Backups, g.summary(ring))
		}
		return nil
	})
	return list, err
}

// ring are the nodes that a backup is of, by the first of its manifests that can be read:
// they agree, but where nodes joined meanwhile or are called otherwise than their addresses.
// Then all of them are read.
func (l looking) ring(ctx context.Context, g grouped) ([]string, error) {
	found := map[string]gist{}
	for _, n := range g.finished() {
		one, err := l.gist(ctx, g.name, n)
		if errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrNoBackup) || errors.Is(err, store.ErrUnfinished) {
			continue // of the others it is told
		}
		if err != nil {
			// To take a backup for incomplete because the storage gave no answer would have
			// an older one restored.
			return nil, fmt.Errorf("read the manifest of backup %s, node %s: %w", g.name, n, err)
		}
		found[n] = one
		nodes := ring(found)
		if !slices.ContainsFunc(nodes, func(n string) bool { _, has := g.parts[n]; return !has }) && len(nodes) >= len(g.parts) {
			return nodes, nil
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	return ring(found), nil
}

func (l looking) gist(ctx context.Context, name, of string) (gist, error) {
	key := [3]string{l.prefix, name, of}
	if kept, ok := l.gists.get(key); ok {
		return kept, nil
	}
	m, err := l.Manifest(ctx, name, of)
	if err != nil {
		return gist{}, err
	}
	g := gist{m.Server, m.Nodes}
	l.gists.put(key, g)
	return g, nil
}

// backup looks into one backup. One that is not there has no members.
func (s *server) backup(ctx context.Context, prefix, name string) (b node.Backup, err error) {
	err = s.look(ctx, prefix, func(ctx context.Context, l looking) error {
		entries, err := l.Backups(ctx)
		if err != nil {
			return fmt.Errorf("look for backup %s: %w", name, err)
		}
		b = node.Backup{Summary: node.Summary{Name: name, Nodes: []string{}}, Prefix: l.prefix, Members: []node.Member{}, Ring: map[string]node.Ring{}}
		entries = slices.DeleteFunc(entries, func(e store.Entry) bool { return e.Name != name })
		if len(entries) == 0 {
			return nil
		}
		return l.into(ctx, group(entries)[0], &b)
	})
	return b, err
}

// into reads all manifests of a backup.
func (l looking) into(ctx context.Context, g grouped, b *node.Backup) error {
	found := map[string]gist{}
	for _, n := range g.nodes() {
		at := node.Member{Node: n, Started: g.parts[n].Started}
		m, err := l.Manifest(ctx, g.name, n)
		switch {
		case err == nil:
			at = member(m)
			at.Node = n
			found[n] = gist{m.Server, m.Nodes}
		case errors.Is(err, store.ErrDamaged):
			l.Log.Warn("a manifest cannot be read", "backup", g.name, "node", n, "error", l.Secrets.Hide(err.Error()))
			l.withhold(g, n)
		case errors.Is(err, store.ErrNoBackup), errors.Is(err, store.ErrUnfinished):
			l.withhold(g, n)
		default:
			return fmt.Errorf("read the manifest of backup %s, node %s: %w", g.name, n, err)
		}
		b.Members = append(b.Members, at)
	}
	var nodes []string
	if len(found) > 0 {
		nodes = ring(found)
	}
	b.Summary = g.summary(nodes)
	for _, n := range nodes {
		b.Ring[n] = node.Ring{Tokens: []string{}}
	}
	return nil
}

// withhold has a part not count as finished, whatever the list said.
func (l looking) withhold(g grouped, n string) {
	e := g.parts[n]
	e.Finished = time.Time{}
	g.parts[n] = e
}

// contents are the counts of a node's part; an empty node is this one.
func (s *server) contents(ctx context.Context, prefix, name, of string) (c node.Contents, err error) {
	if of == "" {
		of = s.Pod.Name
	}
	err = s.look(ctx, prefix, func(ctx context.Context, l looking) error {
		m, err := l.Manifest(ctx, name, of)
		if errors.Is(err, store.ErrNoBackup) || errors.Is(err, store.ErrUnfinished) {
			return fmt.Errorf("%w: backup %s of node %s: %w", nodeserver.ErrNone, name, of, err)
		}
		c = contents(m)
		return err
	})
	return c, err
}

// discard removes this node's part of a backup that is not complete. Below another prefix
// a node of this name is another cluster's.
func (s *server) discard(ctx context.Context, prefix, name string) (d node.Discarded, err error) {
	d = node.Discarded{Node: s.Pod.Name, Name: name}
	if strings.HasPrefix(name, ".") {
		return d, fmt.Errorf("%w: no backup is called %q", nodeserver.ErrKept, name)
	}
	if !s.shelf.own(prefix) {
		return d, fmt.Errorf("%w: this node's backups are below %q, and not %q", nodeserver.ErrKept, s.shelf.prefix(), prefix)
	}
	release, err := s.turn.take(aDiscard, name)
	if err != nil {
		return d, fmt.Errorf("%w: %w", nodeserver.ErrKept, err)
	}
	defer release()
	err = s.look(ctx, "", func(ctx context.Context, l looking) error {
		d.Objects, err = l.Discard(ctx, name, s.Pod.Name)
		switch {
		case errors.Is(err, store.ErrExists):
			return fmt.Errorf("%w: backup %s: it is complete", nodeserver.ErrKept, name)
		case errors.Is(err, store.ErrNoBackup):
			return nil
		}
		return err
	})
	if err != nil {
		return d, err
	}
	s.jobs.note(name, nil)
	s.turn.forget(name)
	s.Log.Info("discarded the node's part of a backup", "backup", name, "objects", d.Objects)
	return d, nil
}
