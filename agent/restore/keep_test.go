package restore

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/api/node"
)

// before is what a node has before it is restored.
var before = map[string]string{
	"data/system/local-77/nb-7-big-Data.db":         "its tokens",
	"data/shop/orders-11/nb-9-big-Data.db":          "newer orders",
	"data/shop/orders-11/.by_name/nb-9-big-Data.db": "newer index",
	"data/shop/orphan-33/nb-1-big-Data.db":          "not in the backup",
	"commitlog/CommitLog-7-1.log":                   "unflushed",
	"saved_caches/KeyCache-f.db":                    "positions",
	"hints/0a-1-2.hints":                            "for others",
}

// request is a rig with such a node, and a Restore that asks.
func request(t *testing.T, keep string) *rig {
	t.Helper()
	r := newRig(t)
	for path, text := range before {
		r.set("vol/"+path, text)
	}
	r.set("vol/data/shop/orders-11/snapshots/mine/nb-1-big-Data.db", "a snapshot")
	r.ID, r.Keep = "r1/1", keep
	return r
}

// all are the files of the node, without what is ours and snapshots.
func (r *rig) all() map[string]string {
	found := map[string]string{}
	root := r.path("vol")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if err == nil && (entry.Name() == own || entry.Name() == "snapshots") {
				return fs.SkipDir
			}
			return err
		}
		if entry.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		found[name] = string(text)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

func (r *rig) previous() []string {
	r.t.Helper()
	all, err := Previous(r.DataMount)
	if err != nil {
		r.t.Fatal(err)
	}
	var ids []string
	for _, p := range all {
		ids = append(ids, p.ID)
	}
	return ids
}

// ask changes what is asked for.
func (r *rig) ask(id, action, undo string) { r.ID, r.Action, r.Undo = id, action, undo }

func (r *rig) mustDo() (string, node.Done) {
	r.t.Helper()
	text, done, err := Run(r.t.Context(), r.Config)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.log.String())
	}
	return text, done
}

func (r *rig) holds(want map[string]string) {
	r.t.Helper()
	if got := r.all(); !maps.Equal(got, want) {
		r.t.Errorf("the volume holds\n%q\nwant\n%q", got, want)
	}
}

// afterwards is what before is after a restore.
func afterwards() map[string]string {
	want := map[string]string{"data/shop/orphan-33/nb-1-big-Data.db": "not in the backup"}
	for path, text := range content {
		want["data/"+path] = text
	}
	return want
}

func TestKeepAndUndo(t *testing.T) {
	for _, keep := range []string{keepAlways, keepIfRoom} {
		r := request(t, keep)
		text, done := r.mustDo()
		r.holds(afterwards())
		if !done.Previous || done.Runs != 1 || done.ID != "r1/1" || done.Action != actionRestore || done.Bytes != 29 || strings.Contains(text, "kept") {
			t.Errorf("%s, %+v", text, done)
		}
		if got := r.previous(); !slices.Equal(got, []string{"r1/1"}) {
			t.Errorf("kept %v", got)
		}
		// All but the orphan, which is still in use, has no other name.
		var bytes int64
		for path, text := range before {
			if !strings.Contains(path, "orphan") {
				bytes += int64(len(text))
			}
		}
		if p, _ := Previous(r.DataMount); p[0].Bytes != bytes || p[0].Since.IsZero() {
			t.Errorf("%+v, want %d bytes", p, bytes)
		}
		r.set("vol/data/shop/orders-11/nb-2-big-Data.db", "written since")
		since := r.all()

		r.Places.Medusa, r.Image.Python = r.path("nowhere"), "" // none of it is needed
		r.ask("u1/1", actionUndo, "r1/1")
		text, done = r.mustDo()
		r.holds(before)
		if !done.Previous || done.Action != actionUndo || done.Tables != 3 || !strings.Contains(text, "undone r1/1") {
			t.Errorf("%s, %+v", text, done)
		}
		if got := r.previous(); !slices.Equal(got, []string{"u1/1"}) {
			t.Errorf("kept %v", got)
		}
		r.ask("u2/1", actionUndo, "u1/1")
		r.mustDo()
		r.holds(since)
		calls := r.get("calls")
		r.ask("u1/1", actionUndo, "r1/1")
		if text, again := r.mustDo(); !strings.Contains(text, "nothing to do") || again.ID != "u1/1" || !again.Finished.Equal(done.Finished) {
			t.Errorf("%s, %+v", text, again)
		}
		r.holds(since)
		if r.get("calls") != calls {
			t.Error("Medusa was run")
		}
	}
}

// TestUndoRefusals change nothing.
func TestUndoRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(r *rig)
		want  string
	}{
		"nothing kept":  {func(r *rig) { _ = Tidy(r.DataMount, r.Log) }, "nothing is kept on it at all"},
		"another's":     {func(r *rig) { r.Undo = "r0/1" }, "it keeps those from before r1/1"},
		"no seal":       {func(r *rig) { r.spoil(sealName, "") }, "read the seal"},
		"torn seal":     {func(r *rig) { r.spoil(sealName, "{}") }, "it names no place"},
		"a file short":  {func(r *rig) { r.spoil("data/shop/orders-11/nb-9-big-Data.db", "") }, "not complete"},
		"a file longer": {func(r *rig) { r.spoil("commitlog/CommitLog-7-1.log", "more than there was") }, "not complete"},
		"a short list":  {func(r *rig) { r.spoil(listName, "{}") }, "0 files, not 7"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, keepIfRoom)
			r.mustDo()
			want, marker := r.all(), r.get("vol/.stategraft/restore.json")
			r.ask("u1/1", actionUndo, "r1/1")
			c.spoil(r)
			if name == "nothing kept" {
				marker = r.get("vol/.stategraft/restore.json")
			}
			if _, err := r.run(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			r.holds(want)
			if r.get("vol/.stategraft/restore.json") != marker {
				t.Error("the marker has changed")
			}
		})
	}
}

// spoil replaces a file among the kept, or removes it.
func (r *rig) spoil(name, text string) {
	r.t.Helper()
	found, err := filepath.Glob(filepath.Join(previousDir(r.DataMount), "*", name))
	if err != nil || len(found) != 1 {
		r.t.Fatalf("%v, %v", found, err)
	}
	if err := os.Remove(found[0]); err != nil {
		r.t.Fatal(err)
	}
	if text == "" {
		return
	}
	if err := os.WriteFile(found[0], []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// TestOnlyTheNewest: each restore takes the place of what was kept before.
func TestOnlyTheNewest(t *testing.T) {
	r := request(t, keepAlways)
	r.mustDo()
	first := r.all()
	r.ask("r2/1", "", "")
	r.mustDo()
	if got := r.previous(); !slices.Equal(got, []string{"r2/1"}) {
		t.Errorf("kept %v", got)
	}
	if dirs, _ := os.ReadDir(previousDir(r.DataMount)); len(dirs) != 1 {
		t.Errorf("%v", dirs)
	}
	r.ask("u1/1", actionUndo, "r2/1")
	r.mustDo()
	r.holds(first)
	r.ask("r3/1", "", "")
	r.Keep = ""
	if _, done := r.mustDo(); done.Previous || len(r.previous()) > 0 {
		t.Errorf("Never keeps %v, %+v", r.previous(), done)
	}
	if dirs, _ := os.ReadDir(previousDir(r.DataMount)); len(dirs) != 0 {
		t.Errorf("%v", dirs)
	}
}

func TestEmpty(t *testing.T) {
	r := request(t, keepIfRoom)
	r.set("vol/data/lost+found/x", "the file system's")
	r.Backup, r.Image.Python, r.Places.Medusa = "", "", r.path("nowhere")
	r.ask("e1/1", actionEmpty, "")
	r.DataDirectory = ""
	text, done := r.mustDo()
	r.holds(map[string]string{"data/lost+found/x": "the file system's"})
	if done.Action != actionEmpty || !done.Previous || !strings.Contains(text, "joins as a new one") {
		t.Errorf("%s, %+v", text, done)
	}
	r.ask("u1/1", actionUndo, "e1/1")
	r.mustDo()
	want := maps.Clone(before)
	want["data/lost+found/x"] = "the file system's"
	r.holds(want)

	fresh := newRig(t)
	fresh.ask("e1/1", actionEmpty, "")
	fresh.mustDo()
	fresh.holds(map[string]string{})
}
