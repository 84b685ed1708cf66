package restore

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLinksImpossible: on a file system without hard links nothing is kept, or
// nothing is restored.
func TestLinksImpossible(t *testing.T) {
	defer func() { link = os.Link }()
	for _, number := range []syscall.Errno{syscall.EPERM, syscall.ENOTSUP, syscall.EXDEV} {
		link = func(from, to string) error { return &os.LinkError{Op: "link", Old: from, New: to, Err: number} }
		for _, action := range []string{actionRestore, actionEmpty} {
			r := request(t, keepAlways)
			r.Action = action
			if _, err := r.run(); err == nil || !strings.Contains(err.Error(), "keepPrevious is Always: the data directory cannot be kept: its files cannot have a second name: "+number.Error()) {
				t.Errorf("%v", err)
			}
			r.holds(before)
			if r.marker().Doing != nil || strings.Contains(r.get("calls"), "restore") {
				t.Error("it has begun")
			}
			r.Keep = keepIfRoom
			text, done := r.mustDo()
			if done.Previous || len(r.previous()) > 0 || !strings.Contains(text, "the data from before are not kept: the data directory") {
				t.Errorf("%s, %+v", text, done)
			}
		}
	}
}

// TestLinksFailInTheMiddle is what nobody could foresee.
func TestLinksFailInTheMiddle(t *testing.T) {
	defer func() { link = os.Link }()
	for keep, fails := range map[string]bool{keepAlways: true, keepIfRoom: false} {
		r := request(t, keep)
		left := 6 // the survey tries four
		link = func(from, to string) error {
			if left--; left < 0 {
				return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.ENOSPC}
			}
			return os.Link(from, to)
		}
		text, err := r.run()
		if fails {
			if err == nil || !strings.Contains(err.Error(), "keep the data from before: ") {
				t.Errorf("%v", err)
			}
			r.sweepLeft()
			r.holds(before)
			link = os.Link
			r.mustDo()
			r.holds(afterwards())
			if got := r.previous(); len(got) != 1 {
				t.Errorf("kept %v", got)
			}
			continue
		}
		if err != nil || !strings.Contains(text, "no space left") || len(r.previous()) > 0 {
			t.Errorf("%s, %v", text, err)
		}
		if dirs, _ := os.ReadDir(previousDir(r.DataMount)); len(dirs) != 0 {
			t.Errorf("%v stay", dirs)
		}
		r.holds(afterwards())
	}
}

// sweepLeft removes the download, which a failed try leaves to the next.
func (r *rig) sweepLeft() {
	if err := r.sweep(); err != nil {
		r.t.Fatal(err)
	}
}

// TestOtherVolume: a commit log on a volume of its own is copied.
func TestOtherVolume(t *testing.T) {
	defer func() { link = os.Link }()
	link = func(from, to string) error {
		if strings.Contains(from, "/commitlog/") || strings.Contains(to, "/vol/commitlog/") {
			return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.EXDEV}
		}
		return os.Link(from, to)
	}
	r := request(t, keepAlways)
	r.mustDo()
	r.holds(afterwards())
	r.ask("u1/1", actionUndo, "r1/1")
	r.mustDo()
	r.holds(before)
}

// TestSymlink: what a symbolic link leads to cannot be kept.
func TestSymlink(t *testing.T) {
	r := request(t, keepAlways)
	if err := os.Symlink(r.path("elsewhere"), r.path("vol/data/linked")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.run(); err == nil || !strings.Contains(err.Error(), "neither a file nor a directory") {
		t.Errorf("%v", err)
	}
}

// takenApart waits until the kernel has taken a process apart.
func takenApart(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// TestMedusaDiesWhileLinking: nobody is there any more to replace the data, and the
// next start does all of it.
func TestMedusaDiesWhileLinking(t *testing.T) {
	defer func() { link = os.Link }()
	for _, last := range []bool{false, true} {
		r := request(t, keepAlways)
		killed := false
		link = func(from, to string) error {
			if found, _ := leftovers(r.Temp); len(found) == 1 && !killed && (!last || strings.Contains(from, "/hints/")) {
				killed = true
				number, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(found[0]), "medusa-restore-"))
				if err != nil {
					t.Fatal(err)
				}
				_ = syscall.Kill(-number, syscall.SIGKILL)
				takenApart(t, number)
			}
			return os.Link(from, to)
		}
		if _, err := r.run(); err == nil || !killed {
			t.Fatalf("%v, killed %v", err, killed)
		}
		link = os.Link
		r.sweepLeft()
		r.holds(before)
		r.mustDo()
		r.holds(afterwards())
		r.ask("u1/1", actionUndo, "r1/1")
		r.mustDo()
		r.holds(before)
	}
}
