package adopted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// volume is a data volume with what a database and a restore have on it.
func volume(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, path := range []string{"data/ks/t-1/x", ".stategraft/restore.json", ".stategraft/adopted/1/stategraft-agent", ".stategraft/adopted/9/stategraft-agent", ".stategraft/adopted/4/stategraft-agent-earlier", ".stategraft/adopted/notes/x"} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// left are the files on it.
func left(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(dir, path)
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestInstall: the program is there until both have come, and then nothing of ours.
func TestInstall(t *testing.T) {
	t.Parallel()
	at, pod := volume(t), uid()
	dir := filepath.Join(at, ".stategraft/adopted/4")
	takers := []Taker{{pod, RoleSnapshot, 5}, {pod, RoleMedusa, 6}}
	done := make(chan error)
	go func() { done <- Install(t.Context(), dir, pod, takers, nothing) }()
	path := brought(dir, pod)
	eventually(t, "the binary is there", func() bool { _, err := os.Stat(path); return err == nil })
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", info, err)
	}
	own, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, own) {
		t.Errorf("it is another program (%v)", err)
	}
	// What killed containers have left is gone, and nothing else.
	want := []string{".stategraft/adopted/4/stategraft-agent-" + pod, ".stategraft/adopted/notes/x", ".stategraft/restore.json", "data/ks/t-1/x"}
	if got := left(t, at); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	take := func(role string, number int) {
		t.Helper()
		if _, err := Own(t.Context(), Seat{PodUID: pod, Role: role, Number: number}); err != nil {
			t.Fatal(err)
		}
	}
	take(RoleSnapshot, 5)
	// Somebody has tidied up: it is brought again.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the binary is there again", func() bool { _, err := os.Stat(path); return err == nil })
	take(RoleMedusa, 6)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := left(t, at); !slices.Equal(got, want[1:]) {
		t.Errorf("got %q", got)
	}
}

// TestInstallLeavesNothing: of directories that it has made none stays.
func TestInstallLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, takers := range map[string][]Taker{"nobody takes it": nil, "it is asked to end": {{uid(), RoleMedusa, 2}}} {
		at := t.TempDir()
		dir := filepath.Join(at, ".stategraft/adopted/1")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- Install(ctx, dir, "pod", takers, nothing) }()
		if len(takers) > 0 {
			eventually(t, "the binary is there", func() bool { _, err := os.Stat(brought(dir, "pod")); return err == nil })
			cancel()
		}
		if err := <-done; (err == nil) != (takers == nil) || err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		if entries, err := os.ReadDir(at); err != nil || len(entries) > 0 {
			t.Errorf("%s: %v stays, %v", name, entries, err)
		}
	}
}

// TestInstallElsewhere: nothing is removed, nor made, where the directory is not ours.
func TestInstallElsewhere(t *testing.T) {
	t.Parallel()
	at := volume(t)
	before := left(t, at)
	for _, dir := range []string{"", "/", at, at + "/data", at + "/data/1", at + "/.stategraft/adopted", at + "/.stategraft/adopted/notes", at + "/.stategraft/adopted/0", ".stategraft/adopted/1"} {
		if err := Install(t.Context(), dir, "pod", nil, nothing); err == nil || !strings.Contains(err.Error(), "STATEGRAFT_ADOPTED_DIR") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if got := left(t, at); !slices.Equal(got, before) {
		t.Errorf("got %q", got)
	}
}

// TestInstallTriesAgain: a volume that cannot be written to ends nothing.
func TestInstallTriesAgain(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	if err := os.WriteFile(filepath.Join(at, ".stategraft"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &buffer{}
	done := make(chan error)
	go func() { done <- Install(ctx, filepath.Join(at, ".stategraft/adopted/1"), "pod", nil, logTo(out)) }()
	eventually(t, "it says what is wrong", func() bool { return strings.Contains(out.String(), "tried again") })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if got := left(t, at); !slices.Equal(got, []string{".stategraft"}) {
		t.Errorf("got %q", got)
	}
}

// TestInstallAfterAnotherPod: what one of this number has left, in an earlier pod or in this
// one, which may be another program, is brought anew.
func TestInstallAfterAnotherPod(t *testing.T) {
	t.Parallel()
	at, pod := t.TempDir(), uid()
	dir := filepath.Join(at, ".stategraft/adopted/1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{"earlier", pod} {
		if err := os.WriteFile(brought(dir, of), []byte("old"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error)
	go func() { done <- Install(t.Context(), dir, pod, []Taker{{pod, RoleMedusa, 2}}, nothing) }()
	eventually(t, "the binary is there", func() bool {
		info, err := os.Stat(brought(dir, pod))
		return err == nil && info.Size() > 1000
	})
	if got := left(t, at); len(got) != 1 {
		t.Errorf("got %q", got)
	}
	if _, err := Own(t.Context(), Seat{PodUID: pod, Role: RoleMedusa, Number: 2}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestInstallRemedy: who cannot write to the volume is told what to do.
func TestInstallRemedy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"another's":   {fmt.Errorf("make directory: %w", syscall.EACCES), "has to be able to write to /data: "},
		"read-only":   {fmt.Errorf("make directory: %w", syscall.EROFS), "restart the pod"},
		"none needed": {syscall.EIO, syscall.EIO.Error()},
	} {
		got := remedy(c.err, "/data")
		if !errors.Is(got, c.err) || !strings.Contains(got.Error(), c.want) || errors.Is(got, syscall.EIO) && got != c.err {
			t.Errorf("%s: %v", name, got)
		}
	}
	if remedy(nil, "/data") != nil {
		t.Error("all is well")
	}
}
