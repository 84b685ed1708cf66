package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"filippo.io/age"

	"github.com/stategraft/stategraft/agent/anna/backup"
	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/pack"
	"github.com/stategraft/stategraft/agent/anna/safejoin"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/api/node"
)

// bucket is a simulated storage of one prefix.
type bucket struct {
	mutex   sync.Mutex
	parts   map[string]map[string]*manifest.Manifest // by backup and node; nil: begun only
	records map[string][]pack.Record                 // by pack
	trouble error
	damaged map[string]bool // manifests, as backup/node
	reads   int             // of manifests
	deletes chan struct{}   // where it is not nil, a deletion waits for it
}

func newBucket() *bucket {
	return &bucket{parts: map[string]map[string]*manifest.Manifest{}, records: map[string][]pack.Record{}, damaged: map[string]bool{}}
}

var began = time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)

func (b *bucket) put(name, of string, m *manifest.Manifest) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.parts[name] == nil {
		b.parts[name] = map[string]*manifest.Manifest{}
	}
	b.parts[name][of] = m
}

// part is a manifest of a node of a cluster.
func part(name, of string, nodes ...string) *manifest.Manifest {
	return &manifest.Manifest{
		Version: 1, Name: name, Node: of, Mode: manifest.Differential, Started: began, Finished: began.Add(time.Minute), Keys: 7, Bytes: 70,
		Server: manifest.Server{Public: of + ".anna", Private: of + ".anna"}, Nodes: nodes, ByLattice: map[string]int64{"LWW": 5, "SET": 2},
		Packs: []manifest.Pack{{Object: "p/" + name + "/" + of, Records: 7}},
	}
}

func (b *bucket) Backups(context.Context) (list []store.Entry, err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for name, parts := range b.parts {
		for of, m := range parts {
			e := store.Entry{Name: name, Node: of, Started: began}
			if m != nil {
				e.Finished = m.Finished
			}
			list = append(list, e)
		}
	}
	return list, b.trouble
}

func (b *bucket) Manifest(_ context.Context, name, of string) (manifest.Manifest, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.reads++
	m, ok := b.parts[name][of]
	switch {
	case b.trouble != nil:
		return manifest.Manifest{}, b.trouble
	case !ok:
		return manifest.Manifest{}, fmt.Errorf("%s: %w", name, store.ErrNoBackup)
	case b.damaged[name+"/"+of]:
		return manifest.Manifest{}, fmt.Errorf("object %s: %w", name, store.ErrDamaged)
	case m == nil:
		return manifest.Manifest{}, fmt.Errorf("%s: %w", name, store.ErrUnfinished)
	}
	return *m, nil
}

func (b *bucket) ReadPack(_ context.Context, p manifest.Pack, _ bool, _ []age.Identity, yield func(pack.Record) error) error {
	for _, r := range b.records[p.Object] {
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

func (b *bucket) Delete(_ context.Context, name string, nodes ...string) (int, error) {
	if b.deletes != nil {
		<-b.deletes
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.trouble != nil || len(nodes) > 0 {
		return 0, errors.Join(b.trouble, errors.New("parts"))
	}
	n := len(b.parts[name])
	delete(b.parts, name)
	return n, nil
}

func (b *bucket) Discard(_ context.Context, name, of string) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	m, ok := b.parts[name][of]
	switch {
	case b.trouble != nil:
		return 0, b.trouble
	case ok && m != nil:
		return 0, fmt.Errorf("%s: %w", name, store.ErrExists)
	case !ok:
		return 0, nil
	}
	delete(b.parts[name], of)
	return 1, nil
}

func (b *bucket) Close() error { return nil }

// machine is a simulated node.
type machine struct {
	mutex   sync.Mutex
	notYet  error // why it cannot be asked
	backups func(ctx context.Context, name string) error
	replays func(ctx context.Context, s stage.Staged, tell func(node.Replay)) error
	made    []string // backups, and replays
	heals   int
}

func (m *machine) ready() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.notYet
}

func (m *machine) did(what string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.made = append(m.made, what)
}

func (m *machine) done() []string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return append([]string(nil), m.made...)
}

func (m *machine) backup(ctx context.Context, name string, full bool, to storage, tell func(backup.Progress)) (manifest.Manifest, error) {
	m.did(fmt.Sprintf("backup %s full=%v", name, full))
	b := to.(*bucket)
	b.put(name, "m-0", nil)
	tell(backup.Progress{Phase: node.Uploading, Keys: 3})
	m.mutex.Lock()
	how := m.backups
	m.mutex.Unlock()
	if how != nil {
		if err := how(ctx, name); err != nil {
			return manifest.Manifest{}, err
		}
	}
	whole := part(name, "m-0", "m-0", "m-1")
	b.put(name, "m-0", whole)
	return *whole, nil
}

func (m *machine) replay(ctx context.Context, s stage.Staged, tell func(node.Replay)) error {
	m.did(fmt.Sprintf("replay %s of %v: %d keys", s.ID, s.Sources, s.Keys))
	tell(node.Replay{Phase: node.ReplayReplaying, Keys: s.Keys / 2})
	if m.replays != nil {
		return m.replays(ctx, s, tell)
	}
	tell(node.Replay{Phase: node.ReplayDone, Keys: s.Keys})
	return nil
}

func (m *machine) heal(context.Context, func(node.Replay)) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.heals++
	return safejoin.ErrNothing
}
