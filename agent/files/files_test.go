package files

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestWriteIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	texts := []string{strings.Repeat("a", 1<<16), strings.Repeat("b", 1<<15)}
	if err := Write(path, []byte(texts[0]), 0o640, Owner{}); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		for i := range 50 {
			if err := Write(path, []byte(texts[i%2]), 0o640, Owner{}); err != nil {
				t.Error(err)
			}
		}
	})
	done := make(chan struct{})
	go func() { wait.Wait(); close(done) }()
	for {
		content, err := os.ReadFile(path)
		if err != nil || string(content) != texts[0] && string(content) != texts[1] {
			t.Fatalf("read %d bytes, %v", len(content), err)
		}
		select {
		case <-done:
			if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
				t.Errorf("temporary files stay: %v", entries)
			}
			if info, _ := os.Stat(path); info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v", info.Mode())
			}
			return
		default:
		}
	}
}

func TestPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bin", "agent")
	for range 2 { // the second replaces the first
		if err := Place(path, Owner{}); err != nil {
			t.Fatal(err)
		}
	}
	own, _ := os.Executable()
	want, _ := os.Stat(own)
	got, err := os.Stat(path)
	if err != nil || got.Size() != want.Size() || got.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", got, err)
	}
}

func TestSegment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "segment")
	if _, err := ReadSegment(path); err == nil {
		t.Error("read before it was made")
	}
	first, err := MakeSegment(path, Owner{})
	if err != nil || len(first) != 2*segmentBytes {
		t.Fatalf("%q, %v", first, err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if again, err := MakeSegment(path, Owner{}); err != nil || again != first {
		t.Errorf("made twice: %q, %v", again, err)
	}
	if err := os.WriteFile(path, []byte("../../etc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if other, err := MakeSegment(path, Owner{}); err != nil || other == first || strings.Contains(other, "/") {
		t.Errorf("what is no segment was kept: %q, %v", other, err)
	}
}

func TestParseOwner(t *testing.T) {
	if o, err := ParseOwner("999:998"); err != nil || o != (Owner{true, 999, 998}) {
		t.Errorf("%v, %v", o, err)
	}
	if o, err := ParseOwner(""); err != nil || o.Set {
		t.Errorf("%v, %v", o, err)
	}
	for _, text := range []string{"999", "a:1", "1:", "-1:1", "1:1:1"} {
		if _, err := ParseOwner(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestOwn(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	owner := Owner{true, 999, 998}
	root := t.TempDir()
	make := func(name string, uid int) string {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, uid, 0); err != nil {
			t.Fatal(err)
		}
		return path
	}
	uid := func(path string) int {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return uidOf(info)
	}
	// A fresh volume: all that is there becomes the database's, but not what
	// the file system keeps, and a symlink is not followed.
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	deep := make("data/ks/table", 0)
	lost := make("lost+found", 0)
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if changed, err := Own(root, owner); err != nil || changed != 5 {
		t.Fatalf("%d changed, %v", changed, err)
	}
	if uid(root) != 999 || uid(deep) != 999 || uid(filepath.Join(root, "link")) != 999 || uid(lost) != 0 || uid(outside) != 0 {
		t.Error("not the right ones were changed")
	}
	// The root is right: what is below a right directory is not looked at, a
	// wrong one is gone through.
	wrong, below := make("hints/x", 0), make("data/ks/other", 0)
	if err := os.Chown(filepath.Join(root, "hints"), 0, 0); err != nil {
		t.Fatal(err)
	}
	if changed, err := Own(root, owner); err != nil || changed != 2 {
		t.Errorf("%d changed, %v", changed, err)
	}
	if uid(wrong) != 999 || uid(below) != 0 {
		t.Errorf("hints/x belongs to %d, data/ks/other to %d", uid(wrong), uid(below))
	}
	if changed, err := Own(root, owner); err != nil || changed != 0 {
		t.Errorf("twice: %d changed, %v", changed, err)
	}
}

func TestRoom(t *testing.T) {
	dir := t.TempDir()
	if free, err := Free(dir); err != nil || free <= 0 {
		t.Errorf("%d, %v", free, err)
	}
	if err := SyncVolume(dir); err != nil {
		t.Error(err)
	}
}
