package stage

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"gocloud.dev/blob/memblob"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/pack"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/api/node"
)

// What is staged is what the backup uses, and is not fetched twice.
func TestFetch(t *testing.T) {
	shelf := newShelf()
	m := shelf.part("b", "ebs-0", 3, 10)
	used := pack.NewBitmap(10)
	used.Set(2)
	used.Set(9)
	m.Packs[1].Used = used
	m.Packs[2].Used = pack.NewBitmap(10) // nothing of it
	m.Missing = manifest.Missing{Count: 4}
	shelf.manifests["b/ebs-0"] = m
	shelf.part("b", "memory-0", 1, 5)
	dir := filepath.Join(t.TempDir(), "x")
	var last, total int64
	fetch := func() Staged {
		s, err := Fetch(t.Context(), shelf, "b", "b", []string{"memory-0", "ebs-0", "ebs-0"}, nil, dir, func(b, of int64) { last, total = b, of })
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := fetch()
	if got := keys(t, s); len(got) != 17 || got[10] != "ebs-0/key-1-2 SINGLE_CAUSAL value 2" || got[11] != "ebs-0/key-1-9 MULTI_CAUSAL value 9" {
		t.Errorf("%q", got)
	}
	if s.Missing != 4 || last != 300 || total != 300 || !slices.Equal(s.Sources, []string{"ebs-0", "memory-0"}) {
		t.Errorf("%+v, %d of %d", s, last, total)
	}
	if shelf.fetched() != 3 {
		t.Errorf("%v were fetched", shelf.reads)
	}
	fetch()
	if shelf.fetched() != 3 {
		t.Errorf("fetched again: %v", shelf.reads)
	}

	// One that is damaged is, and one that is lost, and one that is of something else.
	paths, _ := filepath.Glob(filepath.Join(dir, "*"+packEnding))
	content, _ := os.ReadFile(paths[0])
	content[len(content)/2] ^= 1
	if err := errors.Join(os.WriteFile(paths[0], content, 0o644), os.Remove(paths[1])); err != nil {
		t.Fatal(err)
	}
	read, err := Read(dir)
	if err != nil || read.whole() == nil {
		t.Errorf("%v, and nothing is found to be damaged", err)
	}
	s = fetch()
	if shelf.fetched() != 5 || s.whole() != nil {
		t.Errorf("%v, %v", shelf.reads, s.whole())
	}
	m.Packs[0].SHA256 = digest("another")
	shelf.manifests["b/ebs-0"] = m
	fetch()
	if shelf.fetched() != 6 {
		t.Errorf("%v", shelf.reads)
	}
	if all, err := All(filepath.Dir(dir)); err != nil || len(all) != 1 || all[0].Keys != 17 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A damaged file of records gives an error and never a wrong number of records.
func TestDamaged(t *testing.T) {
	shelf := newShelf()
	shelf.part("b", "n", 1, 200)
	dir := t.TempDir()
	s, err := Fetch(t.Context(), shelf, "b", "b", []string{"n"}, nil, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, s.Packs[0].File)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		for _, bad := range [][]byte{whole[:at], append(append(slices.Clone(whole[:at]), whole[at]^0x10), whole[at+1:]...)} {
			if err := os.WriteFile(path, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			n := int64(0)
			err := s.Records(s.Packs[0], func(Record) error { n++; return nil })
			if err == nil && n != 200 || s.Packs[0].verify(dir) == nil {
				t.Fatalf("byte %d: %d records, %v", at, n, err)
			}
		}
	}
}

// What is not all there is refused, and it is told whose fault that is.
func TestRefused(t *testing.T) {
	lost := func(s *shelf) { delete(s.objects, "packs/ebs-0/b-1") }
	for name, test := range map[string]struct {
		change func(*shelf)
		source string
		cause  node.Cause
		says   string
	}{
		"no such backup":  {func(s *shelf) { clear(s.manifests) }, "", node.CauseNoBackup, "backup b"},
		"no such node":    {nil, "ebs-7", node.CauseNoBackup, "ebs-7: it has parts of ebs-0, ebs-1"},
		"unfinished":      {func(s *shelf) { m := s.manifests["b/ebs-0"]; m.Finished = time.Time{}; s.manifests["b/ebs-0"] = m }, "", node.CauseUnfinished, "ebs-0"},
		"a pack is lost":  {lost, "", node.CauseLost, "packs/ebs-0/b-1"},
		"another's":       {func(s *shelf) { s.manifests["b/ebs-0"] = s.manifests["b/ebs-1"]; s.part("b", "ebs-1", 1, 1) }, "ebs-0", node.CauseNoBackup, "ebs-0"},
		"too few records": {func(s *shelf) { s.objects["packs/ebs-0/b-1"] = s.objects["packs/ebs-0/b-1"][1:] }, "", node.CauseLost, "9 records"},
		"encrypted":       {func(s *shelf) { m := s.manifests["b/ebs-0"]; m.Encrypted = true; s.manifests["b/ebs-0"] = m }, "", node.CauseNone, "decryption-secret"},
		"the storage":     {func(s *shelf) { s.fail = func(string, int) error { return errors.New("no route") } }, "", node.CauseNone, "no route"},
		"damaged on its way": {func(s *shelf) {
			s.fail = func(_ string, record int) error {
				if record == 5 {
					return pack.ErrDamaged
				}
				return nil
			}
		}, "", node.CauseLost, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			pauseOf = func(int) time.Duration { return 0 }
			shelf := newShelf()
			shelf.part("b", "ebs-0", 2, 10)
			shelf.part("b", "ebs-1", 1, 10)
			if test.change != nil {
				test.change(shelf)
			}
			p := newPod(t, shelf)
			p.Source = test.source
			p.data(t, "ebs_0/k")
			before := p.tree(t)
			_, _, err := Run(t.Context(), p.Config)
			if err == nil || CauseOf(err) != test.cause || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v (%s)", err, CauseOf(err))
			}
			if all, err := All(p.Root); len(all) > 0 || err != nil {
				t.Errorf("staged: %+v, %v", all, err)
			}
			if after := p.tree(t); !maps.Equal(before, after) {
				t.Errorf("the data are %v", after)
			}
		})
	}
}

// The storage's errors are tried again, those of the backup are not.
func TestTries(t *testing.T) {
	pauseOf = func(int) time.Duration { return 0 }
	shelf := newShelf()
	shelf.part("b", "n", 1, 10)
	failures := 2
	shelf.fail = func(_ string, record int) error {
		if record == 3 && failures > 0 {
			failures--
			return errors.New("reset")
		}
		return nil
	}
	s, err := Fetch(t.Context(), shelf, "b", "b", []string{"n"}, nil, t.TempDir(), nil)
	if err != nil || len(keys(t, s)) != 10 || shelf.fetched() != 3 {
		t.Errorf("%v, %v", err, shelf.reads)
	}
	delete(shelf.objects, "packs/n/b-0")
	if _, err := Fetch(t.Context(), shelf, "b", "b", []string{"n"}, nil, t.TempDir(), nil); err == nil || shelf.fetched() != 4 {
		t.Errorf("%v, %v", err, shelf.reads)
	}
}

func TestChoose(t *testing.T) {
	shelf := newShelf()
	for _, name := range []string{"mem-0", "mem-1", "mem-2", "mem-10", "ebs-0", "single"} {
		shelf.part("b", name, 0, 0)
	}
	shelf.part("old", "mem-9", 0, 0)
	gone := func(_ context.Context, pod string) bool { return pod == "mem-2" || pod == "mem-10" }
	for name, test := range map[string]struct {
		who  Who
		want string
		note string
	}{
		"its own":             {Who{Name: "mem-1"}, "mem-1", ""},
		"first, with others":  {Who{Name: "mem-0", Gone: gone}, "mem-0,mem-10,mem-2", "not there any more: mem-10, mem-2"},
		"first, DNS unknown":  {Who{Name: "mem-0"}, "mem-0", ""},
		"of a request":        {Who{Name: "mem-0", Gone: gone, Request: true}, "mem-0", ""},
		"one more than there": {Who{Name: "mem-3"}, "", "no part of mem-3"},
		"not of a set":        {Who{Name: "single"}, "single", ""},
		"all":                 {Who{Name: "x", Source: "*"}, "ebs-0,mem-0,mem-1,mem-10,mem-2,single", ""},
		"none":                {Who{Name: "mem-1", Source: "-"}, "", "others have all of it"},
		"named":               {Who{Name: "x", Source: " mem-2, ebs-0,mem-2,"}, "mem-2,ebs-0", ""},
		"nothing, a request":  {Who{Name: "other-0", Request: true}, "", "no part of other-0"},
		"of another set":      {Who{Name: "other-0"}, "refused", "restore-source"},
		"not in it":           {Who{Name: "x", Source: "mem-9"}, "refused", "mem-9"},
	} {
		nodes, note, err := Choose(t.Context(), shelf, "b", test.who)
		got := strings.Join(nodes, ",")
		if err != nil {
			got, note = "refused", err.Error()
			if CauseOf(err) != node.CauseNoBackup {
				t.Errorf("%s: cause %q", name, CauseOf(err))
			}
		}
		if got != test.want || !strings.Contains(note, test.note) || test.note == "" && note != "" {
			t.Errorf("%s: %q, %q", name, got, note)
		}
	}
	if _, _, err := Choose(t.Context(), shelf, "none", Who{Name: "mem-0"}); !errors.Is(err, store.ErrNoBackup) {
		t.Errorf("%v", err)
	}
}

// The whole of it: what is staged, what is told, what is left of the data.
func TestRun(t *testing.T) {
	shelf := newShelf()
	shelf.part("b", "ebs-0", 2, 10)
	p := newPod(t, shelf)
	p.data(t, "ebs_0/k", "ebs_0/funcs/f", "ebs_1/x/y/z", "other/file")
	p.ID, p.Keep = "restores/r/1", keepAlways
	var phases []string
	p.Tell = func(pr node.Progress) {
		if n := len(phases); n == 0 || phases[n-1] != pr.Phase {
			phases = append(phases, pr.Phase)
		}
		if pr.ID != p.ID {
			t.Errorf("%+v", pr)
		}
	}
	text, done, err := Run(t.Context(), p.Config)
	if err != nil {
		t.Fatal(err)
	}
	if done.ID != p.ID || done.Action != "restore" || !done.Previous || done.Source != "ebs-0" || done.Backup != "b" || !strings.Contains(text, "20 keys") {
		t.Errorf("%s, %+v", text, done)
	}
	if want := []string{node.LookingUp, node.Downloading, node.Replacing, node.Finished}; !slices.Equal(phases, want) {
		t.Errorf("%q", phases)
	}
	want := map[string]string{"/": "", "/ebs_0/": "", "/ebs_0/funcs/": "", "/ebs_0/ebs-0/": "", "/ebs_1/ebs-0/": "", "/ebs_1/": "", "/ebs_1/x/": "", "/ebs_1/x/y/": "", "/other/": "", "/other/file": "old other/file"}
	if got := p.tree(t); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	previous, err := Previous(p.DataDirectory)
	if err != nil || len(previous) != 1 || previous[0].ID != p.ID || previous[0].Bytes != int64(len("old ebs_0/k")+len("old ebs_0/funcs/f")+len("old ebs_1/x/y/z")) {
		t.Errorf("%+v, %v", previous, err)
	}

	// Again: nothing is done, with the storage gone too, and what the node wrote stays.
	p.data(t, "ebs_0/new")
	p.Open = func(context.Context) (Source, error) { return nil, errors.New("not needed") }
	if _, again, err := Run(t.Context(), p.Config); err != nil || !again.Previous || again.ID != done.ID {
		t.Errorf("%+v, %v", again, err)
	}
	if got := p.tree(t); got["/ebs_0/new"] == "" || shelf.fetched() != 2 {
		t.Errorf("%v, %v", got, shelf.reads)
	}

	// And back, twice.
	u := p.Config
	u.Tell = nil
	u.ID, u.Action, u.Undo, u.Backup = "restores/u/2", actionUndo, p.ID, ""
	for range 2 {
		if _, done, err = Run(t.Context(), u); err != nil || !done.Previous || done.Action != actionUndo {
			t.Fatalf("%+v, %v", done, err)
		}
		got := p.tree(t)
		if got["/ebs_0/k"] != "old ebs_0/k" || got["/ebs_1/x/y/z"] == "" || got["/ebs_0/new"] != "" {
			t.Errorf("%v", got)
		}
	}
	// The undo is undone; what it had replaced is not there for another.
	uu := u
	uu.ID, uu.Undo = "restores/u/3", u.ID
	if _, _, err = Run(t.Context(), uu); err != nil || p.tree(t)["/ebs_0/new"] == "" {
		t.Errorf("%v, %v", err, p.tree(t))
	}
	uu.ID, uu.Undo = "restores/u/4", p.ID
	if _, _, err = Run(t.Context(), uu); err == nil || !strings.Contains(err.Error(), "restores/u/3") {
		t.Errorf("%v", err)
	}
}

// Keys of other parts come to a disk node too: it has their directories, also where it gets
// no part.
func TestFolders(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	shelf := newShelf()
	shelf.part("b", "ebs-0", 1, 2)
	of := shelf.part("b", "mem-0", 1, 2)
	of.Folders = []string{"funcs", "deep/er", "../out"}
	shelf.manifests["b/mem-0"] = of
	s, err := store.New(memblob.OpenBucket(nil), store.Config{Recipients: []string{key.Recipient().String()}})
	if err != nil {
		t.Fatal(err)
	}
	of = shelf.part("b", "mem-1", 1, 2)
	if of.Sealed, err = s.Seal([]byte(`["secret"]`)); err != nil {
		t.Fatal(err)
	}
	shelf.manifests["b/mem-1"] = of
	p := newPod(t, shelf)
	p.data(t, "ebs_0/k")
	p.ID, p.Source, p.Identities = "restores/r/1", NoSource, []age.Identity{key}
	for range 2 {
		if _, _, err := Run(t.Context(), p.Config); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"/": "", "/ebs_0/": "", "/ebs_0/funcs/": "", "/ebs_0/deep/": "", "/ebs_0/deep/er/": "", "/ebs_0/secret/": ""}
		if got := p.tree(t); !maps.Equal(got, want) {
			t.Errorf("%v", got)
		}
	}
}

// What is kept is removed in the end, or when there is no room, and nobody can go back then.
func TestTidy(t *testing.T) {
	shelf := newShelf()
	shelf.part("b", "ebs-0", 1, 2)
	p := newPod(t, shelf)
	log := slog.New(slog.DiscardHandler)
	p.data(t, "ebs_0/k")
	p.ID, p.Keep = "restores/r/1", keepAlways
	if _, _, err := Run(t.Context(), p.Config); err != nil {
		t.Fatal(err)
	}
	if err := Tidy(p.DataDirectory, false, log); err != nil {
		t.Error(err)
	}
	if previous, err := Previous(p.DataDirectory); err != nil || len(previous) != 1 {
		t.Errorf("with room: %+v, %v", previous, err)
	}
	for range 2 {
		if err := Tidy(p.DataDirectory, true, log); err != nil {
			t.Error(err)
		}
	}
	if previous, err := Previous(p.DataDirectory); err != nil || len(previous) != 0 {
		t.Errorf("%+v, %v", previous, err)
	}
	if entries, err := os.ReadDir(filepath.Join(p.DataDirectory, own, "anna", "previous")); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
	u := p.Config
	u.ID, u.Action, u.Undo, u.Backup = "restores/u/2", actionUndo, p.ID, ""
	if _, _, err := Run(t.Context(), u); err == nil {
		t.Error("data that are gone came back")
	}
	if _, done, err := Run(t.Context(), p.Config); err != nil || done.Previous {
		t.Errorf("the restore itself again: %+v, %v", done, err)
	}
}

// A restore by annotation is another one from another source, and keeps nothing.
func TestTemplate(t *testing.T) {
	shelf := newShelf()
	shelf.part("b", "ebs-0", 1, 10)
	shelf.part("b", "ebs-1", 1, 20)
	p := newPod(t, shelf)
	p.data(t, "ebs_0/k")
	_, done, err := Run(t.Context(), p.Config)
	if err != nil || done.ID != "b" || done.Action != "" || done.Previous {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := os.Stat(filepath.Join(p.DataDirectory, own, "anna", "previous", "b")); err == nil {
		t.Error("the data from before are kept, and nobody would remove them")
	}
	p.data(t, "ebs_0/k")
	p.Source = "ebs-0,ebs-1"
	_, done, err = Run(t.Context(), p.Config)
	if err != nil || done.ID != "b@ebs-0,ebs-1" || done.Source != p.Source || p.tree(t)["/ebs_0/k"] != "" {
		t.Errorf("%+v, %v", done, err)
	}
	p.data(t, "ebs_0/k")
	if _, _, err = Run(t.Context(), p.Config); err != nil || p.tree(t)["/ebs_0/k"] == "" {
		t.Errorf("%v: what was written after the restore is gone", err)
	}
}

func TestEmpty(t *testing.T) {
	p := newPod(t, nil)
	p.data(t, "ebs_0/k")
	p.ID, p.Action, p.Backup, p.Keep = "r/1", actionEmpty, "", keepIfRoom
	_, done, err := Run(t.Context(), p.Config)
	if err != nil || done.Action != actionEmpty {
		t.Fatalf("%+v, %v", done, err)
	}
	if got := p.tree(t); len(got) != 2 {
		t.Errorf("%v", got)
	}
	if s, err := Read(Dir(p.Root, "r/1")); err != nil || s.Keys != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// The memory tier has no data to set aside.
func TestMemory(t *testing.T) {
	shelf := newShelf()
	shelf.part("b", "ebs-0", 1, 10)
	p := newPod(t, shelf)
	p.DataDirectory = ""
	if _, done, err := Run(t.Context(), p.Config); err != nil || done.Bytes == 0 {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestUsable(t *testing.T) {
	for says, c := range map[string]Config{
		"STATEGRAFT_RESTORE_ACTION": {Action: "burn"},
		"STATEGRAFT_KEEP_PREVIOUS":  {ID: "x", Keep: "Sometimes"},
		"STATEGRAFT_BACKUP":         {},
		"STATEGRAFT_RESTORE_ID":     {Action: "undo"},
		"STATEGRAFT_RESTORE_UNDO":   {Action: "undo", ID: "x"},
		"POD_NAME":                  {Backup: "b"},
	} {
		if _, _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
