package medusa

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// busy does what agent/python/running.py does.
func busy(t *testing.T, private, text string) (end func()) {
	t.Helper()
	file, err := os.OpenFile(RunningFile(private), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		_, err = file.WriteAt([]byte(text), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { file.Close() }
}

func TestRunning(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "own")
	marker := filepath.Join(t.TempDir(), "marker")
	if r, is := Running(dir, marker); is || r != nil {
		t.Error("runs before there is anything")
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// An image without the hooks: its own mark is all there is.
	if r, is := Running(dir, marker); !is || r != nil {
		t.Error("the mark is not seen")
	}
	if _, err := Hold(dir, marker); !errors.Is(err, ErrBusy) {
		t.Errorf("held over a mark: %v", err)
	}
	if _, is := Running(dir, marker); !is {
		t.Error("the mark is not seen after it was tried to hold")
	}
	// With them, the file is.
	end := busy(t, dir, `{"kind": "backup", "name": "b1", "since": "2026-11-30T10:00:00Z", "phase": "uploading"}trailing`)
	if r, is := Running(dir, marker); !is || r.Name != "b1" || r.Phase != "uploading" || r.Since.Year() != 2026 {
		t.Errorf("%+v, %v", r, is)
	}
	if _, err := Hold(dir, marker); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "backup b1") {
		t.Errorf("held while a backup runs: %v", err)
	}
	end()
	if _, is := Running(dir, marker); is {
		t.Error("runs after its end, although it was killed")
	}
	release, err := Hold(dir, marker)
	if err != nil {
		t.Fatal(err)
	}
	if _, is := Running(dir, marker); is {
		t.Error("what holds Medusa is taken for what was killed")
	}
	if _, err := Hold(dir, marker); !errors.Is(err, ErrBusy) {
		t.Errorf("held twice: %v", err)
	}
	release()
	if again, err := Hold(dir, marker); err != nil {
		t.Error(err)
	} else {
		again()
	}
	end = busy(t, dir, `{"kind": "the deletion of backup", "name": "b1"}`)
	defer end()
	if _, is := Running(dir, marker); is {
		t.Error("a deletion is taken for a backup")
	}
}
