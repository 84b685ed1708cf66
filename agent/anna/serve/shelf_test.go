package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What the storage waits for is told once, and not at every question of a controller.
func TestStorageIsMissedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := os.RemoveAll(filepath.Join(r.Places.User, "medusa.ini")); err != nil {
		t.Fatal(err)
	}
	s := newServer(r.Config)
	told := func() int {
		for range 3 {
			s.shelf.looked = time.Time{}
			if _, err := s.shelf.current(); err == nil {
				t.Fatal("there is a storage")
			}
		}
		return strings.Count(r.log.String(), "degraded: no backups")
	}
	if n := told(); n != 1 {
		t.Errorf("told %d times:\n%s", n, r.log)
	}
	r.configure("[storage]\nbucket_name = b\n")
	if n := told(); n != 2 {
		t.Errorf("another reason is told %d times:\n%s", n, r.log)
	}
}
