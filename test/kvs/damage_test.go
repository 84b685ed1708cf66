package kvs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/backup"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/api/node"
)

// Whatever is wrong in the storage, nothing is staged of it, and the error names the
// object: bits that are others, objects that are short or not there.
func TestDamage(t *testing.T) {
	one := start(t, wish{Memory: 1, Threads: 1, Report: time.Second})
	d := Data{Keys: 3000, Large: 30, Seed: 41}
	ours := connect(t, one.Routing, 1)
	if _, err := d.Load(t.Context(), ours, 0, nil); err != nil {
		t.Fatal(err)
	}
	storage, bucket := shelf(t)
	self := wire.Server{Public: one.Memory[0], Private: one.Memory[0]}
	for _, name := range []string{"first", "second"} { // the second is of packs of both
		if _, err := backup.Run(t.Context(), backup.Job{Name: name, Node: "memory-0", Role: "memory", Self: self, Tier: wire.Memory, Threads: 1,
			Local: one.Memory[0], Scratch: t.TempDir(), Period: time.Second}, ours, storage, func(backup.Progress) {}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Load(t.Context(), ours, 1, func(i int) bool { return i%10 == 0 }); err != nil {
			t.Fatal(err)
		}
	}
	fetch := func() error {
		_, err := stage.Fetch(t.Context(), storage, "x", "second", []string{"memory-0"}, nil, filepath.Join(t.TempDir(), "staged"), nil)
		return err
	}
	if err := fetch(); err != nil {
		t.Fatalf("before anything is wrong: %v", err)
	}
	m, err := storage.Manifest(t.Context(), "second", "memory-0")
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Packs) < 2 {
		t.Fatalf("the second backup is of %d packs: there is nothing of the first in it", len(m.Packs))
	}
	var objects []string
	for _, p := range m.Packs {
		objects = append(objects, p.Object)
	}
	if err := filepath.WalkDir(bucket, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "second/memory-0.json") {
			rel, _ := filepath.Rel(bucket, path)
			objects = append(objects, rel)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(objects) != len(m.Packs)+1 {
		t.Fatalf("the manifest is not found: %v", objects)
	}
	r := rand.New(rand.NewPCG(4, 1))
	refused := map[string]int{}
	for _, object := range objects {
		path := filepath.Join(bucket, object)
		right, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range scale(20, 200) {
			spoilt := slices.Clone(right)
			bit := r.IntN(8 * len(spoilt))
			spoilt[bit/8] ^= 1 << (bit % 8)
			try(t, path, spoilt, object, fmt.Sprintf("bit %d another", bit), fetch)
			refused["bits"]++
			size := r.IntN(len(right))
			try(t, path, right[:size], object, fmt.Sprintf("cut to %d bytes of %d", size, len(right)), fetch)
			refused["cuts"]++
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		err = fetch()
		if err == nil || !strings.Contains(err.Error(), object) && !strings.HasSuffix(object, ".json") {
			t.Errorf("%s is not there: %v", object, err)
		}
		if cause := stage.CauseOf(err); cause == node.CauseNone {
			t.Errorf("%s is not there: no cause in %v", object, err)
		}
		refused["losses"]++
		if err := os.WriteFile(path, right, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := fetch(); err != nil {
		t.Errorf("after all is right again: %v", err)
	}
	figure(t, "%d objects of a backup: %d bits flipped, %d cut short, %d removed; each refused, with the object's name", len(objects), refused["bits"], refused["cuts"], refused["losses"])
}

// try puts something else in an object's place: it must be refused by name.
func try(t *testing.T, path string, content []byte, object, what string, fetch func() error) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	err := fetch()
	switch {
	case err == nil:
		t.Errorf("%s, %s: it is taken", object, what)
	case !strings.Contains(err.Error(), object):
		t.Errorf("%s, %s: not named in %v", object, what, err)
	case stage.CauseOf(err) == node.CauseNone:
		t.Errorf("%s, %s: no cause in %v", object, what, errors.Unwrap(err))
	}
}
