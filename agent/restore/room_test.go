package restore

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		mode string
		s    survey
		r    room
		keep bool
		say  string
	}{
		"never":                        {keepNever, survey{}, room{size: 100 * gib, free: 90 * gib}, false, ""},
		"room enough":                  {keepIfRoom, survey{old: 40 * gib}, room{size: 100 * gib, free: 50 * gib, add: 40 * gib}, true, ""},
		"a byte short":                 {keepIfRoom, survey{old: 40 * gib}, room{size: 100 * gib, free: 50*gib - 1, add: 40 * gib}, false, "10.0 GiB of 100.0 GiB would be free"},
		"older data go":                {keepIfRoom, survey{}, room{size: 100 * gib, free: 45 * gib, add: 40 * gib, older: 5 * gib}, true, ""},
		"copies count":                 {keepIfRoom, survey{copies: 8 * gib}, room{size: 100 * gib, free: 50 * gib, add: 40 * gib}, false, "2.0 GiB of"},
		"always, little room":          {keepAlways, survey{}, room{size: 100 * gib, free: 42 * gib, add: 40 * gib}, true, ""},
		"always, too little":           {keepAlways, survey{}, room{size: 100 * gib, free: 40*gib + 700<<20, add: 40 * gib}, false, "too little room: 40.8 GiB"},
		"always, no room for copies":   {keepAlways, survey{copies: 2 * gib}, room{size: 100 * gib, free: 41 * gib, add: 40 * gib}, false, "too little room"},
		"impossible":                   {keepIfRoom, survey{impossible: fs.ErrInvalid}, room{size: 100, free: 100}, false, "invalid"},
		"impossible and asked for":     {keepAlways, survey{impossible: fs.ErrInvalid}, room{size: 100, free: 100}, false, "invalid"},
		"impossible but not asked for": {keepNever, survey{impossible: fs.ErrInvalid}, room{size: 100, free: 100}, false, ""},
	} {
		keep, note, err := decide(c.mode, c.s, c.r)
		if keep != c.keep || (err != nil) != (c.mode == keepAlways && !c.keep) {
			t.Errorf("%s: %v, %v", name, keep, err)
		}
		if err != nil {
			note = err.Error()
		}
		if !strings.Contains(note, c.say) || c.say == "" && note != "" {
			t.Errorf("%s: it says %q", name, note)
		}
	}
}

// good is the report of a backup of that size which can be restored.
func good(size int64) Report {
	return Report{FQDN: "c-0", Nodes: []string{"c-0"}, TokenMap: []string{"c-0"}, Complete: true, Tables: []Table{{Keyspace: "shop", Name: "huge-1", Files: map[string]int64{"x": size}}}}
}

// TestOlderDataMakeRoom: what was kept before goes when the download needs the
// room, and stays when it would not help.
func TestOlderDataMakeRoom(t *testing.T) {
	r := request(t, keepAlways)
	r.mustDo()
	j := &job{Config: r.Config, before: r.marker()}
	huge := good(1 << 60)
	if _, err := j.makeRoom(huge); err != nil || len(r.previous()) != 1 {
		t.Errorf("%v, %v", err, r.previous())
	}
	free, err := j.makeRoom(Report{})
	if err != nil || len(r.previous()) != 1 {
		t.Fatal(err)
	}
	// A kept file of a size that cannot be, without taking room.
	kept := filepath.Join(previousDir(r.DataMount), j.before.Kept.Dir, "data", "sparse")
	if err := errors.Join(os.WriteFile(kept, nil, 0o600), os.Truncate(kept, 1<<40)); err != nil {
		t.Fatal(err)
	}
	if _, err := j.makeRoom(good(free + 1<<30)); err != nil || len(r.previous()) != 0 {
		t.Errorf("%v, %v", err, r.previous())
	}
	if !strings.Contains(j.notes, "the data from before r1/1 were removed to make room") {
		t.Errorf("%s", j.notes)
	}
}

// TestRefusedMakesNoRoom: a restore that is refused for another reason costs nobody
// the way back to the data from before an earlier one.
func TestRefusedMakesNoRoom(t *testing.T) {
	r := request(t, keepAlways)
	r.mustDo()
	j := &job{Config: r.Config, before: r.marker()}
	free, err := j.makeRoom(Report{})
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(previousDir(r.DataMount), j.before.Kept.Dir, "data", "sparse")
	if err := errors.Join(os.WriteFile(kept, nil, 0o600), os.Truncate(kept, 1<<40)); err != nil {
		t.Fatal(err)
	}
	r.ask("r2/1", "", "")
	r.report(func(a *Report) {
		a.TokenMap = []string{"10.0.0.1"}
		a.Tables = []Table{{Keyspace: "shop", Name: "orders-11", Files: map[string]int64{"x": free + 1<<30}}}
	})
	if _, err := r.run(); err == nil || !strings.Contains(err.Error(), "does not know node cassandra-0") {
		t.Errorf("%v", err)
	}
	if got := r.previous(); !slices.Equal(got, []string{"r1/1"}) {
		t.Errorf("kept %v", got)
	}
}

// TestHalfReplacedMakesRoom: what an interrupted restore has moved in place takes the
// room that the next try needs for its download. Where the data from before are kept
// nobody needs it, nor what it has not replaced yet.
func TestHalfReplacedMakesRoom(t *testing.T) {
	for name, c := range map[string]struct {
		keep   string
		spoil  bool
		remote bool
		gone   bool
	}{
		"kept":            {keep: keepIfRoom, gone: true},
		"kept and remote": {keep: keepIfRoom, remote: true, gone: true},
		"not kept":        {keep: keepNever},
		"kept in part":    {keep: keepIfRoom, spoil: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, c.keep)
			r.set("vol/data/system_auth/roles-55/nb-1-big-Data.db", "the target's logins")
			r.killed("moved")
			r.sweepLeft()
			if c.spoil {
				r.spoil("commitlog/CommitLog-7-1.log", "")
			}
			if c.remote {
				r.Mode = modeRemote
			}
			report := Report{FQDN: "cassandra-0", Complete: true, Nodes: []string{"cassandra-0"}, TokenMap: []string{"cassandra-0"},
				DataDirectory: r.path("vol/data"), Tables: tablesOf(content)}
			report.Tables[0].Files["huge"] = 1 << 60
			report.Tables = append(report.Tables, Table{Keyspace: "system_auth", Name: "roles-55", Files: map[string]int64{"x": 1}})
			j := &job{Config: r.Config, before: r.marker()}
			if _, err := j.makeRoom(report); err != nil {
				t.Fatal(err)
			}
			for _, table := range []string{"shop/orders-11", "system/local-77"} {
				if _, err := os.Stat(r.path("vol/data/" + table)); (err != nil) != c.gone && table == "shop/orders-11" || c.gone && err == nil {
					t.Errorf("%s: %v", table, err)
				}
			}
			if _, err := os.Stat(r.path("vol/data/shop/orphan-33")); err != nil {
				t.Error("what is not in the backup is gone")
			}
			if _, err := os.Stat(r.path("vol/data/system_auth/roles-55")); (err != nil) != (c.gone && !c.remote) {
				t.Errorf("the target's logins: %v", err)
			}
			r.Mode = ""
			if c.gone && !c.remote {
				r.afterKill()
				r.ask("u1/1", actionUndo, "r1/1")
				r.mustDo()
				want := maps.Clone(before)
				want["data/system_auth/roles-55/nb-1-big-Data.db"] = "the target's logins"
				r.holds(want)
			}
		})
	}
}

// TestOlder: what a restore gives back when it is done is what was kept before; an
// undo puts that in place, and gives nothing back.
func TestOlder(t *testing.T) {
	r := request(t, keepAlways)
	r.mustDo()
	for _, c := range []struct {
		action, undo string
		gives        bool
	}{{actionRestore, "", true}, {actionEmpty, "", true}, {actionUndo, "r1/1", false}} {
		r.ask("x/1", c.action, c.undo)
		j := &job{Config: r.Config, before: r.marker()}
		if got := j.older(); (got > 0) != c.gives {
			t.Errorf("%s: %d", c.action, got)
		}
	}
}
