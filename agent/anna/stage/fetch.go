package stage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"filippo.io/age"
	"golang.org/x/sync/errgroup"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/pack"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/files"
)

// Source is what is needed of *store.Store.
type Source interface {
	Backups(ctx context.Context) ([]store.Entry, error)
	Manifest(ctx context.Context, name, node string) (manifest.Manifest, error)
	ReadPack(ctx context.Context, p manifest.Pack, encrypted bool, identities []age.Identity, yield func(pack.Record) error) error
}

// together is how many packs are fetched at a time. Each costs the memory of two
// compressed streams. With one, that is done by the caller's goroutine.
var together = 2

// tries is how often a pack is fetched before the container fails, whose next start goes
// on with what is there. What is damaged is not tried again.
const tries = 3

// pauseOf is the wait before a try.
var pauseOf = func(try int) time.Duration { return time.Duration(try) * 2 * time.Second }

// Fetch stages the parts of some nodes in a backup: every pack is fetched, compared with
// its manifest, decrypted where it is encrypted, and written to dir with those records
// that the backup uses of it. What is in dir already, and right, is not fetched again.
// It refuses a backup of which anything is not there; CauseOf tells why. Without nodes
// nothing is staged, which is told in staged.json too.
//
// tell, where it is not nil, is told how many bytes of the storage's are there, of how many.
func Fetch(ctx context.Context, from Source, id, backup string, nodes []string, identities []age.Identity, dir string, tell func(bytes, total int64)) (Staged, error) {
	return fetch(ctx, from, Staged{ID: id, Backup: backup, Sources: nodes, Dir: dir}, identities, tell)
}

// fetch is Fetch of what a Staged says beforehand.
func fetch(ctx context.Context, from Source, s Staged, identities []age.Identity, tell func(bytes, total int64)) (Staged, error) {
	if tell == nil {
		tell = func(int64, int64) {}
	}
	f := &fetching{Source: from, identities: identities, dir: s.Dir, tell: tell}
	s.Sources, s.Packs, s.Since = slices.Clone(s.Sources), []Pack{}, time.Now().UTC().Truncate(time.Second)
	slices.Sort(s.Sources)
	s.Sources = slices.Compact(s.Sources)
	for _, node := range s.Sources {
		m, err := f.manifest(ctx, s.Backup, node)
		if err != nil {
			return s, err
		}
		s.Missing += m.Missing.Count
		f.plan(m)
	}
	if err := f.prepare(); err != nil {
		return s, err
	}
	if err := f.all(ctx); err != nil {
		return s, fmt.Errorf("fetch backup %s: %w", s.Backup, err)
	}
	for _, w := range f.wanted {
		s.Packs = append(s.Packs, w.Pack)
		s.Keys += w.Keys
		s.Bytes += w.Bytes
	}
	step("staged")
	return s, s.Write()
}

// fetching is one run of Fetch.
type fetching struct {
	Source
	identities []age.Identity
	dir        string
	wanted     []*wanted

	mutex       sync.Mutex
	bytes, size int64
	tell        func(bytes, total int64)
}

// wanted is a pack to be staged.
type wanted struct {
	Pack
	object    manifest.Pack
	encrypted bool
	there     bool
}

func (f *fetching) manifest(ctx context.Context, backup, node string) (manifest.Manifest, error) {
	m, err := f.Manifest(ctx, backup, node)
	switch {
	case err == nil:
	case errors.Is(err, store.ErrNoBackup):
		return m, blame(causeNoBackup, fmt.Errorf("backup %s has nothing of node %s: %w", backup, node, err))
	case errors.Is(err, store.ErrUnfinished):
		return m, blame(causeUnfinished, fmt.Errorf("backup %s of node %s is not complete: %w", backup, node, err))
	default:
		return m, blameStore(fmt.Errorf("look up backup %s of node %s: %w", backup, node, err))
	}
	if m.Name != backup || m.Node != node {
		return m, blame(causeLost, fmt.Errorf("the manifest of backup %s of node %s is that of backup %s of node %s: %w", backup, node, m.Name, m.Node, store.ErrDamaged))
	}
	if m.Encrypted && len(f.identities) == 0 {
		return m, fmt.Errorf("backup %s of node %s is encrypted, and there is no key to read it with: put the age identity into the Secret that annotation stategraft.io/decryption-secret names: %w", backup, node, store.ErrNoKey)
	}
	return m, nil
}

// plan lists the packs of a part, in the order of the manifest.
func (f *fetching) plan(m manifest.Manifest) {
	for i, p := range m.Packs {
		if p.Used.Count(p.Records) == 0 {
			continue
		}
		w := &wanted{object: p, encrypted: m.Encrypted}
		w.File = fmt.Sprintf("%s-%06d%s", safe(m.Node), i, packEnding)
		w.Node, w.Object, w.Of = m.Node, p.Object, digest(p.SHA256+"/"+hex.EncodeToString(p.Used))
		f.wanted = append(f.wanted, w)
		f.size += p.Size
	}
}

// prepare looks at what is there, removes what is of no use and asks for the room for the
// rest.
func (f *fetching) prepare() error {
	if err := files.MakeDir(f.dir, 0o755, files.Owner{}); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(f.dir, stagedName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("prepare %s: %w", f.dir, err)
	}
	known := map[string]bool{}
	var missing int64
	for _, w := range f.wanted {
		p, ok := have(f.dir, w.Pack)
		if !ok {
			missing += w.object.Size
			continue
		}
		w.Pack, w.there = p, true
		f.bytes += w.object.Size
		known[w.File], known[w.File+packSide] = true, true
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("prepare %s: %w", f.dir, err)
	}
	for _, entry := range entries {
		if !known[entry.Name()] {
			if err := os.RemoveAll(filepath.Join(f.dir, entry.Name())); err != nil {
				return fmt.Errorf("prepare %s: %w", f.dir, err)
			}
		}
	}
	f.tell(f.bytes, f.size)
	free, err := files.Free(f.dir)
	// What is staged is compressed too, if not as well.
	if need := missing + missing/4; err == nil && free < need {
		return fmt.Errorf("the pod's temporary volume has too little room for the backup: %d MB are free at %s and about %d MB are needed", free>>20, f.dir, need>>20)
	}
	return nil // a file system that does not tell is tried
}

// all fetches what is not there.
func (f *fetching) all(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(together)
	for _, w := range f.wanted {
		if w.there {
			continue
		}
		if together > 1 {
			group.Go(func() error { return f.fetch(ctx, w) })
		} else if err := f.fetch(ctx, w); err != nil {
			return err
		}
	}
	return group.Wait()
}

func (f *fetching) fetch(ctx context.Context, w *wanted) error {
	if err := f.try(ctx, w); err != nil {
		return err
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.bytes += w.object.Size
	f.tell(f.bytes, f.size)
	return nil
}

// try fetches a pack, and does so again where that may help.
func (f *fetching) try(ctx context.Context, w *wanted) error {
	for n := 1; ; n++ {
		err := f.one(ctx, w)
		if err == nil || n == tries || errors.Is(err, store.ErrDamaged) || errors.Is(err, pack.ErrDamaged) || ctx.Err() != nil {
			return blameStore(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pauseOf(n)):
		}
	}
}

func (f *fetching) one(ctx context.Context, w *wanted) error {
	out, err := NewWriter(f.dir, Pack{File: w.File, Node: w.Node, Object: w.Object, Of: w.Of})
	if err != nil {
		return err
	}
	defer out.Abort()
	err = f.ReadPack(ctx, w.object, w.encrypted, f.identities, func(r pack.Record) error {
		step("record")
		return out.Add(Record(r))
	})
	if err != nil {
		return err
	}
	if got, want := out.pack.Keys, w.object.Used.Count(w.object.Records); got != want {
		return fmt.Errorf("pack %s holds %d records that are used, not %d: %w", w.Object, got, want, store.ErrDamaged)
	}
	step("pack")
	p, err := out.Close()
	if err == nil {
		w.Pack = p
	}
	return err
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// listed writes names for people.
func listed(names []string) string {
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// step is called before each change of files. Tests stop there.
var step = func(string) {}
