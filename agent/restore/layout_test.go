package restore

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLayout: where the data are without asking Medusa.
func TestLayout(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *rig)
		want   string // data, commit log, caches, hints
		err    string
	}{
		"as the webhook knows": {func(*rig) {}, "vol/data vol/commitlog vol/saved_caches vol/hints", ""},
		"all of it":            {func(r *rig) { r.Commitlog, r.SavedCaches = r.path("log"), r.path("caches") }, "vol/data log caches vol/hints", ""},
		"nothing known":        {func(r *rig) { r.DataDirectory = "" }, "vol/data vol/commitlog vol/saved_caches vol/hints", ""},
		"seen on the volume":   {func(r *rig) { r.DataDirectory = ""; r.set("vol/system/local-77/x", "") }, "vol commitlog saved_caches hints", ""},
		"mounted on data": {func(r *rig) {
			r.DataDirectory, r.DataMount = "", r.path("vol/data")
		}, "vol/data vol/commitlog vol/saved_caches vol/hints", ""},
		"cassandra.yaml": {func(r *rig) {
			r.set("c.yaml", strings.ReplaceAll("data_file_directories: [D/d]\ncommitlog_directory: D/l\nsaved_caches_directory: D/s\nhints_directory: D/h\n", "D", r.dir))
			r.set("medusa/medusa.ini", "[cassandra]\nconfig_file = "+r.path("c.yaml")+"\n")
		}, "d l s h", ""},
		"two data directories": {func(r *rig) {
			r.set("c.yaml", "data_file_directories: [/a, /b]\n")
			r.set("medusa/medusa.ini", "[cassandra]\nconfig_file = "+r.path("c.yaml")+"\n")
		}, "", "data_file_directories has 2 entries"},
		"no cassandra.yaml": {func(r *rig) {
			r.set("medusa/medusa.ini", "[cassandra]\nconfig_file = /nowhere\n")
		}, "vol/data vol/commitlog vol/saved_caches vol/hints", ""},
		"a broken one": {func(r *rig) {
			r.set("c.yaml", "{")
			r.set("medusa/medusa.ini", "[cassandra]\nconfig_file = "+r.path("c.yaml")+"\n")
		}, "vol/data vol/commitlog vol/saved_caches vol/hints", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c.change(r)
			l, err := r.layout()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v", err)
				}
				return
			}
			var want []string
			for path := range strings.FieldsSeq(c.want) {
				want = append(want, r.path(path))
			}
			if err != nil || !slices.Equal(l.paths(), want) {
				t.Errorf("%v, %v, want %v", l.paths(), err, want)
			}
		})
	}
}

// TestDataOnTheRoot has everything in the volume's root: the data, in them the
// commit log, and what is ours.
func TestDataOnTheRoot(t *testing.T) {
	r := newRig(t)
	r.DataDirectory, r.Commitlog = r.path("vol"), r.path("vol/deep/commitlog")
	r.SavedCaches = r.path("vol/saved_caches")
	files := map[string]string{
		"system/local-77/a": "1", "shop/orders-11/b": "2", "deep/commitlog/CommitLog-7-1.log": "3", "saved_caches/x.db": "4",
		"lost+found/x": "theirs", "deep/mine": "theirs",
	}
	for path, text := range files {
		r.set("vol/"+path, text)
	}
	r.ask("e1/1", actionEmpty, "")
	r.Keep = keepAlways
	r.mustDo()
	r.holds(map[string]string{"lost+found/x": "theirs", "deep/mine": "theirs"})
	found, err := filepath.Glob(filepath.Join(previousDir(r.DataMount), "*", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range found {
		names = append(names, filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path))
	}
	slices.Sort(names)
	if want := []string{"commitlog/CommitLog-7-1.log", "data/shop", "data/system", "saved_caches/x.db"}; !slices.Equal(names, want) {
		t.Errorf("kept %v", names)
	}
	r.ask("u1/1", actionUndo, "e1/1")
	r.mustDo()
	want := maps.Clone(files)
	r.holds(want)
}

// TestMountedElsewhere: an undo finds its way in a pod that mounts the volume
// somewhere else.
func TestMountedElsewhere(t *testing.T) {
	r := request(t, keepIfRoom)
	r.mustDo()
	moved := newRig(t)
	if err := renameAll(r.path("vol"), moved.path("vol")); err != nil {
		t.Fatal(err)
	}
	moved.Keep = keepIfRoom
	moved.ask("u1/1", actionUndo, "r1/1")
	moved.mustDo()
	moved.holds(before)
}

// renameAll puts one directory into the place of another.
func renameAll(from, to string) error {
	return errors.Join(os.RemoveAll(to), os.Rename(from, to))
}
