package stage

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/pack"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// shelf is a storage in memory.
type shelf struct {
	manifests map[string]manifest.Manifest // by backup/node
	objects   map[string][]pack.Record

	mutex sync.Mutex
	reads map[string]int // of objects
	fail  func(object string, record int) error
}

// part is a node's part with so many packs of so many records.
func (s *shelf) part(backup, name string, packs, records int) manifest.Manifest {
	m := manifest.Manifest{Name: backup, Node: name, Finished: time.Unix(1, 0)}
	for i := range packs {
		object := fmt.Sprintf("packs/%s/%s-%d", name, backup, i)
		for k := range records {
			s.objects[object] = append(s.objects[object], pack.Record{Key: fmt.Sprintf("%s/key-%d-%d", name, i, k), Lattice: wire.Lattice(1 + k%6), Payload: fmt.Append(nil, "value ", k)})
		}
		m.Packs = append(m.Packs, manifest.Pack{Object: object, SHA256: digest(object), Records: int64(records), Size: 100})
		m.Keys += int64(records)
	}
	s.manifests[backup+"/"+name] = m
	return m
}

func newShelf() *shelf {
	return &shelf{manifests: map[string]manifest.Manifest{}, objects: map[string][]pack.Record{}, reads: map[string]int{}}
}

func (s *shelf) Backups(context.Context) ([]store.Entry, error) {
	var all []store.Entry
	for _, key := range slices.Sorted(maps.Keys(s.manifests)) {
		m := s.manifests[key]
		all = append(all, store.Entry{Name: m.Name, Node: m.Node, Finished: m.Finished})
	}
	return all, nil
}

func (s *shelf) Manifest(_ context.Context, name, node string) (manifest.Manifest, error) {
	m, ok := s.manifests[name+"/"+node]
	switch {
	case !ok:
		return m, fmt.Errorf("%s/%s: %w", name, node, store.ErrNoBackup)
	case m.Finished.IsZero():
		return m, store.ErrUnfinished
	}
	return m, nil
}

func (s *shelf) ReadPack(_ context.Context, p manifest.Pack, _ bool, _ []age.Identity, yield func(pack.Record) error) error {
	s.mutex.Lock()
	s.reads[p.Object]++
	s.mutex.Unlock()
	records, ok := s.objects[p.Object]
	if !ok {
		return fmt.Errorf("object %s is not there: %w", p.Object, store.ErrDamaged)
	}
	for i, r := range records {
		if !p.Used.Has(int64(i)) {
			continue
		}
		if s.fail != nil {
			if err := s.fail(p.Object, i); err != nil {
				return err
			}
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

func (s *shelf) fetched() int {
	n := 0
	for _, count := range s.reads {
		n += count
	}
	return n
}

// pod is a pod that is restored.
type pod struct {
	Config
	dir string
}

func newPod(t *testing.T, s *shelf) *pod {
	t.Helper()
	dir := t.TempDir()
	p := &pod{dir: dir, Config: Config{Backup: "b", PodName: "ebs-0", Root: filepath.Join(dir, "staged"), DataDirectory: filepath.Join(dir, "ebs"), Log: slog.New(slog.DiscardHandler)}}
	p.Open = func(context.Context) (Source, error) { return s, nil }
	return p
}

// data fills the disk tier.
func (p *pod) data(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(p.DataDirectory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("old "+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tree is what is below the data directory, without what is ours: files with their
// content, directories with a slash.
func (p *pod) tree(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(p.DataDirectory, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Name() == own {
			return filepath.SkipDir
		}
		name := strings.TrimPrefix(path, p.DataDirectory)
		if entry.IsDir() {
			found[name+"/"] = ""
			return nil
		}
		content, err := os.ReadFile(path)
		found[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// keys are all that is staged.
func keys(t *testing.T, s Staged) []string {
	t.Helper()
	var all []string
	for _, p := range s.Packs {
		n := 0
		err := s.Records(p, func(r Record) error {
			n++
			all = append(all, fmt.Sprintf("%s %v %s", r.Key, r.Lattice, r.Payload))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if int64(n) != p.Keys {
			t.Errorf("%s has %d records, and says %d", p.File, n, p.Keys)
		}
	}
	if int64(len(all)) != s.Keys {
		t.Errorf("%d records are staged, and it says %d", len(all), s.Keys)
	}
	return all
}

// killed is what a test stops the program with.
type killed struct{}

// stopAt has the program die at the n-th step, and gives how many steps there were.
func stopAt(t *testing.T, n int) func() int {
	t.Helper()
	var mutex sync.Mutex
	count := 0
	step = func(string) {
		mutex.Lock()
		defer mutex.Unlock()
		if count++; count == n {
			panic(killed{})
		}
	}
	t.Cleanup(func() { step = func(string) {} })
	return func() int { step = func(string) {}; return count }
}

// dies runs a function that may be killed.
func dies(run func()) (dead bool) {
	defer func() {
		if cause := recover(); cause != nil {
			if _, ok := cause.(killed); !ok {
				panic(cause)
			}
			dead = true
		}
	}()
	run()
	return false
}

// fetchHere has the test's own goroutine fetch, where it can be killed.
func fetchHere(t *testing.T) {
	before := together
	together = 1
	t.Cleanup(func() { together = before })
}

func removeAll(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}
