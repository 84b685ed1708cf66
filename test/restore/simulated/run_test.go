package simulated

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func catalogue() *Catalogue {
	c := &Catalogue{}
	c.Add("nightly", time.Now().Add(-time.Hour), []string{"ring-0"}, []string{"ring-1"}, []string{"ring-2"})
	return c
}

// toEnd runs until the run ends, or reaches a phase.
func toEnd(r *run, now time.Time, phase string) (time.Time, error) {
	r.begin(now)
	for range 1000 {
		if r.phase == phase {
			return now, nil
		}
		if ended, err := r.advance(now); ended {
			return now, err
		}
		now = now.Add(10 * time.Millisecond)
	}
	panic("it does not end")
}

// Killed in any phase and begun anew, the data are replaced once, the marker has the
// request once, and the outcome is the same once more.
func TestRunKilledInEachPhase(t *testing.T) {
	order := Order{ID: "r/1", Action: "restore", Backup: "nightly", Source: "ring-0", Keep: "Always"}
	for phase, runs := range map[string]int{"": 1, node.LookingUp: 1, node.Downloading: 1, node.Replacing: 2, node.Verifying: 2, node.Finished: 1} {
		v := NewVolume("new")
		start := func() *run {
			return &run{order: order, volume: v, backups: catalogue(), pace: pace{rand.New(rand.NewPCG(1, 2))}}
		}
		now, err := time.Now(), error(nil)
		if phase != "" {
			if now, err = toEnd(start(), now, phase); err != nil {
				t.Fatal(err)
			}
			half := phase == node.Replacing || phase == node.Verifying
			if half != (v.Applying != nil) {
				t.Errorf("killed while %s: applying %v", phase, v.Applying)
			}
		}
		again := start()
		if now, err = toEnd(again, now, "none"); err != nil {
			t.Fatal(err)
		}
		if v.Data != "nightly of ring-0" || v.Replaced["r/1"] != 1 || len(v.Done) != 1 || v.Applying != nil || v.Previous["r/1"] != "new" {
			t.Errorf("killed while %s: %+v", phase, v)
		}
		if v.Done[0].Runs != runs {
			t.Errorf("killed while %s: the marker counts %d runs, want %d", phase, v.Done[0].Runs, runs)
		}
		if _, done, err := node.ParseOutcome(again.message); err != nil || done.ID != "r/1" {
			t.Errorf("killed while %s: outcome %q: %v", phase, again.message, err)
		}
		last := start()
		if _, err := toEnd(last, now, "none"); err != nil || v.Replaced["r/1"] != 1 || !strings.Contains(last.message, "nothing to do") {
			t.Errorf("once more: %v, %q", err, last.message)
		}
	}
}

func TestRunActions(t *testing.T) {
	for name, c := range map[string]struct {
		order Order
		want  string // data; empty for a failure
	}{
		"not complete": {Order{ID: "a", Action: "restore", Backup: "nightly", Source: "ring-1"}, ""},
		"missing":      {Order{ID: "b", Action: "restore", Backup: "nightly", Source: "ring-2"}, ""},
		"no backup":    {Order{ID: "c", Action: "restore", Backup: "weekly", Source: "ring-0"}, ""},
		"empty":        {Order{ID: "d", Action: "empty"}, Emptied},
		"undo":         {Order{ID: "e", Action: "undo", Undo: "earlier"}, "older"},
		"undo nothing": {Order{ID: "f", Action: "undo", Undo: "unknown"}, ""},
	} {
		v := NewVolume("new")
		v.Previous["earlier"] = "older"
		_, err := toEnd(&run{order: c.order, volume: v, backups: catalogue(), pace: pace{rand.New(rand.NewPCG(1, 2))}}, time.Now(), "none")
		if c.want == "" && (err == nil || v.Data != "new" || v.Applying != nil) || c.want != "" && (err != nil || v.Data != c.want) {
			t.Errorf("%s: %v, %+v", name, err, v)
		}
	}
}

func TestOrderOf(t *testing.T) {
	o := OrderOf(&corev1.Container{Env: []corev1.EnvVar{{Name: api.EnvRestoreID, Value: "r/1"}, {Name: "STATEGRAFT_BACKUP", Value: "nightly"}}}, "ring-0")
	if (o != Order{ID: "r/1", Action: "restore", Backup: "nightly", Source: "ring-0"}) {
		t.Errorf("%+v", o)
	}
}

// A container that fails is started again, later each time, and its status says so.
func TestContainerFails(t *testing.T) {
	now := time.Now()
	c := &container{spec: &corev1.Container{Name: "c"}, init: true}
	var before time.Duration
	for i := range 3 {
		c.start(now)
		if int(c.restarts) != i {
			t.Errorf("%d restarts, want %d", c.restarts, i)
		}
		c.end(now, 137, "")
		wait := c.due.Sub(now)
		if wait <= before {
			t.Errorf("backoff %s after %s", wait, before)
		}
		before = wait
		if s := c.status(now, false); s.State.Terminated == nil || s.State.Terminated.ExitCode != 137 {
			t.Errorf("just ended: %+v", s.State)
		}
		if s := c.status(now.Add(wait*3/4), false); s.State.Waiting == nil || s.State.Waiting.Reason != "CrashLoopBackOff" || s.LastTerminationState.Terminated == nil {
			t.Errorf("waiting: %+v", s)
		}
		now = c.due
	}
	c.start(now)
	c.end(now, 0, "well")
	if s := c.status(now, false); !c.done() || s.State.Terminated == nil || s.State.Terminated.Message != "well" || s.RestartCount != 3 {
		t.Errorf("%+v", s)
	}
}
