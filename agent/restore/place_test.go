package restore

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPlaceBehindALink: the directory of a part of the data may be a symbolic link,
// to another directory of the volume or to another volume. What Medusa and the
// database see behind it is what is kept, and what is emptied.
func TestPlaceBehindALink(t *testing.T) {
	for _, action := range []string{actionRestore, actionEmpty} {
		for _, part := range []string{"data", "commitlog", "hints"} {
			t.Run(action+" "+part, func(t *testing.T) {
				r := request(t, keepAlways)
				if err := os.MkdirAll(r.path("vol/deep"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(r.path("vol/"+part), r.path("vol/deep/"+part)); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink("deep/"+part, r.path("vol/"+part)); err != nil {
					t.Fatal(err)
				}
				r.set("vol/deep/other", "somebody else's")
				behind := r.all()
				r.ask("r1/1", action, "")
				r.mustDo()
				if action == actionEmpty {
					if got := r.all(); len(got) != 1 || got["deep/other"] != "somebody else's" {
						t.Errorf("left %q", got)
					}
				}
				r.ask("u1/1", actionUndo, "r1/1")
				r.mustDo()
				if got := r.all(); !maps.Equal(got, behind) {
					t.Errorf("undone it holds\n%q\nwant\n%q", got, behind)
				}
			})
		}
	}
}

// TestPlaceBehindALinkToNowhere: what is behind it cannot be seen here, so nothing
// can be said of it, nor done to it.
func TestPlaceBehindALinkToNowhere(t *testing.T) {
	for _, keep := range []string{keepAlways, keepNever} {
		r := request(t, keep)
		if err := os.Rename(r.path("vol/commitlog"), r.path("elsewhere")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/nowhere/at/all", r.path("vol/commitlog")); err != nil {
			t.Fatal(err)
		}
		r.ask("e1/1", actionEmpty, "")
		if _, err := r.run(); err == nil || !strings.Contains(err.Error(), "commitlog") || !strings.Contains(err.Error(), "leads to nothing") {
			t.Errorf("%v", err)
		}
		if r.marker().Doing != nil || r.get("vol/data/shop/orders-11/nb-9-big-Data.db") == "" {
			t.Error("it has begun")
		}
	}
}

// inode is a file's number and time.
func inode(t *testing.T, path string) (uint64, time.Time) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino, info.ModTime()
}

// TestWrittenInPlace: Cassandra adds to a table of contents, and writes a filter anew,
// in the file that is there. Of a table that a restore leaves in place these are
// copied, or what is kept would change with what is in use.
func TestWrittenInPlace(t *testing.T) {
	r := request(t, keepAlways)
	stays := map[string]bool{ // whether it may have two names
		"shop/orphan-33/nb-1-big-Data.db": true, "shop/orphan-33/nb-1-big-Statistics.db": true, "shop/orphan-33/.idx/nb-1-big-Index.db": true,
		"shop/orphan-33/nb-1-big-TOC.txt": false, "shop/orphan-33/nb-1-big-Filter.db": false, "shop/orphan-33/.idx/nb-1-big-Filter.db": false,
		"shop/orphan-33/nb_txn_compaction_6e3d2f40-0000-11ee-8000-000000000000.log": false, "elasticsearch.data/nodes/0/node.lock": false, "shop/orphan-33/manifest.json": false,
		"shop/orders-11/nb-9-big-TOC.txt": true, "shop/orders-11/nb-9-big-Filter.db": true, // of one that is replaced
	}
	long := time.Now().Add(-24 * time.Hour).Truncate(time.Second)
	for path := range stays {
		r.set("vol/data/"+path, "as it was")
		if err := os.Chtimes(r.path("vol/data/"+path), long, long); err != nil {
			t.Fatal(err)
		}
	}
	old := map[string]uint64{}
	for path := range stays {
		old[path], _ = inode(t, r.path("vol/data/"+path))
	}
	was := r.all()
	r.mustDo()
	kept, err := filepath.Glob(filepath.Join(previousDir(r.DataMount), "*", "data"))
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	for path, linked := range stays {
		// A transaction's log names the times of the files that it removes.
		if number, at := inode(t, filepath.Join(kept[0], path)); (number == old[path]) != linked || !at.Equal(long) {
			t.Errorf("%s: linked %v, of %v", path, number == old[path], at)
		}
	}
	toc, err := os.OpenFile(r.path("vol/data/shop/orphan-33/nb-1-big-TOC.txt"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := toc.WriteString("SI_by_name.db\n"); err != nil {
		t.Fatal(err)
	}
	toc.Close()
	r.set("vol/data/shop/orphan-33/nb-1-big-Filter.db", "another chance")
	r.ask("u1/1", actionUndo, "r1/1")
	r.mustDo()
	r.holds(was)
	if _, at := inode(t, r.path("vol/data/shop/orphan-33/nb-1-big-TOC.txt")); !at.Equal(long) {
		t.Errorf("put back of %v", at)
	}
}

// TestNotRemovable: what this user cannot take away is said before anything changes,
// and is no matter where it stays.
func TestNotRemovable(t *testing.T) {
	defer func() { access = syscall.Access }()
	for _, c := range []struct {
		dir  string
		stop string // actions that it keeps from being done
	}{
		{"data", "restore empty"},
		{"data/shop", "restore empty"},
		{"data/shop/orders-11", "restore empty"},
		{"data/shop/orders-11/snapshots/mine", "restore empty"},
		{"data/shop/orphan-33", "empty"},
		{"data/other/table-1", "empty"},
		{"commitlog", "restore empty"},
		{"data/lost+found", ""},
		{"data/shop/orders-11/vacant", ""}, // an empty one goes with its name
	} {
		for _, action := range []string{actionRestore, actionEmpty} {
			r := request(t, keepNever)
			r.set("vol/data/lost+found/x", "")
			r.set("vol/data/other/table-1/nb-1-big-Data.db", "orphan")
			if err := os.MkdirAll(r.path("vol/data/shop/orders-11/vacant"), 0o755); err != nil {
				t.Fatal(err)
			}
			access = func(path string, mode uint32) error {
				if path == r.path("vol/"+c.dir) {
					return syscall.EACCES
				}
				return syscall.Access(path, mode)
			}
			r.ask("r1/1", action, "")
			_, err := r.run()
			if stop := strings.Contains(c.stop, action); stop != (err != nil) || stop && (!strings.Contains(err.Error(), "cannot remove what is in "+r.path("vol/"+c.dir)) || r.marker().Doing != nil) {
				t.Errorf("%s, %s: %v", c.dir, action, err)
			}
		}
	}
}

// TestEmptyFindsNothing: nobody is told that a volume is empty while the data are
// somewhere else on it.
func TestEmptyFindsNothing(t *testing.T) {
	for at, refused := range map[string]bool{"cassandra/data": true, "a/b/c": true, "data": false, ".stategraft/previous/x": false, "medusa-restore-1": false} {
		r := newRig(t)
		r.DataDirectory = ""
		r.set("vol/"+at+"/system/local-7ad54392bcdd35a684174e047860b377/nb-1-big-Data.db", "its tokens")
		r.ask("e1/1", actionEmpty, "")
		_, err := r.run()
		if refused && (err == nil || !strings.Contains(err.Error(), r.path("vol/"+at)+" holds a node's data") || r.marker().Doing != nil) || !refused && err != nil {
			t.Errorf("%s: %v", at, err)
		}
		r.DataDirectory = r.path("vol/data") // where it is known, the other is somebody's copy
		if _, err := r.run(); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
}
