package supervise

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/process"
)

// TestHalt: what has to end does, is not started again before it may be, and says why.
func TestHalt(t *testing.T) {
	r := newRig(t, "")
	var short, backup atomic.Bool
	full := errors.New("the node is short of memory")
	r.config.Halt = func(b bool) error {
		backup.Store(b)
		if short.Load() {
			return full
		}
		return nil
	}
	prepare := r.config.Prepare
	r.config.Prepare = func() (process.Spec, error) {
		if short.Load() {
			return process.Spec{}, full
		}
		return prepare()
	}
	r.start()
	r.eventually("it runs", func() bool { return r.state().State == Running && len(r.starts()) == 1 })
	r.set("marker", "")
	r.eventually("the backup is told", func() bool { return backup.Load() })
	short.Store(true)
	r.eventually("it waits", func() bool { return r.state().State == Waiting && r.state().Reason == full.Error() })
	if r.alive(r.starts()[0]) || !strings.Contains(r.log.String(), "stopped: the node is short of memory") {
		t.Errorf("Medusa still runs, or nothing is said\n%s", r.log)
	}
	if len(r.starts()) != 1 {
		t.Errorf("it was started again: %q", r.starts())
	}
	short.Store(false)
	r.eventually("it is back", func() bool { return r.state().State == Running && len(r.starts()) == 2 })
	if r.state().Backup {
		t.Error("the backup that was interrupted still goes on")
	}
	r.stop()
}

// TestStopsAtOnce: what makes no backup ends when it is asked to, and is not killed after a
// while. On a busy machine that may take long, but not each time.
func TestStopsAtOnce(t *testing.T) {
	least := time.Hour
	for range 5 {
		r := newRig(t, "")
		r.start()
		r.eventually("it runs", func() bool { return r.get("serving") != "" })
		if least = min(least, r.stop()); least < process.Grace {
			return
		}
	}
	t.Errorf("an idle Medusa took %v to end", least)
}
