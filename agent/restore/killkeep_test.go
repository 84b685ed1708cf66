package restore

import (
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killed runs what is asked for in a process of its own and kills that, and the
// Medusa that it runs, where it gets to the phase or, with a number, for the nth
// time to the step.
func (r *rig) killed(phase string) {
	r.t.Helper()
	_ = os.Remove(r.path("held"))
	r.set("hold", phase)
	command := r.helper(r.t)
	group := r.held(r.t)
	_ = command.Process.Kill()
	_ = command.Wait()
	if group != command.Process.Pid {
		if err := syscall.Kill(-group, syscall.SIGKILL); err != nil {
			r.t.Fatal(err)
		}
	}
	_ = os.Remove(r.path("hold"))
}

// afterKill does what was asked for, once what the killed one left has gone.
func (r *rig) afterKill() (text string, runs int) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		text, done, err := Run(r.t.Context(), r.Config)
		if err == nil {
			return text, done.Runs
		}
		if !strings.Contains(err.Error(), "another restore") || time.Now().After(deadline) {
			r.t.Fatalf("%v\n%s", err, r.log.String())
		}
	}
}

// TestKilledKeeping kills in each phase what keeps the data from before, goes back
// to them or leaves none. The next start does all of it, and nothing twice; what is
// kept is what was there before, never what was half replaced.
func TestKilledKeeping(t *testing.T) {
	for action, phases := range map[string][]string{
		actionRestore: {"precheck", "download", "link:1", "link:7", "seal:1", "begin:1", "begun:1", "begin", "removed", "moved", "all", "end", "finish:1", "finished:1"},
		actionEmpty:   {"link:1", "link:7", "seal:1", "begin:1", "begun:1", "wipe:1", "wipe:4", "finish:1", "finished:1"},
		actionUndo:    {"link:1", "link:5", "seal:1", "begin:1", "begun:1", "wipe:1", "wipe:2", "put:1", "put:9", "finish:1", "finished:1", "prune:1"},
	} {
		for _, phase := range phases {
			t.Run(action+" "+phase, func(t *testing.T) {
				r := request(t, keepIfRoom)
				was, want := before, afterwards()
				switch action {
				case actionEmpty:
					r.ask("r1/1", actionEmpty, "")
					want = map[string]string{}
				case actionUndo:
					r.mustDo()
					r.ask("u1/1", actionUndo, "r1/1")
					was, want = afterwards(), before
				}
				r.killed(phase)
				m := r.marker()
				_, done := m.done(r.ID, true)
				untouched := slices.Contains([]string{"precheck", "download", "link:1", "link:5", "link:7", "seal:1", "begin:1"}, phase)
				if last := phase == "finished:1" || phase == "prune:1"; done != last || (m.Doing == nil) != (untouched || last) {
					t.Errorf("the marker has %+v", m)
				}
				if untouched {
					r.sweepLeft()
					r.holds(was)
				}
				_, runs := r.afterKill()
				r.holds(want)
				if runs != 1 && (untouched || done) || runs != 2 && !untouched && !done {
					t.Errorf("%d runs", runs)
				}
				if dirs, _ := os.ReadDir(previousDir(r.DataMount)); len(dirs) != 1 || !slices.Equal(r.previous(), []string{r.ID}) {
					t.Errorf("kept %v in %v", r.previous(), dirs)
				}
				if text, _ := r.afterKill(); !strings.Contains(text, "nothing to do") {
					t.Errorf("%s", text)
				}
				r.ask("u9/1", actionUndo, r.ID)
				r.mustDo()
				if !maps.Equal(r.all(), was) {
					t.Errorf("what was kept is\n%q\nwant\n%q", r.all(), was)
				}
			})
		}
	}
}

// TestAnotherAfterTheKill: a restore that was killed in its middle is given up for
// another. What is kept then is what was there before both.
func TestAnotherAfterTheKill(t *testing.T) {
	r := request(t, keepIfRoom)
	r.killed("moved")
	r.ask("e1/1", actionEmpty, "")
	r.afterKill()
	r.holds(map[string]string{})
	r.ask("u1/1", actionUndo, "e1/1")
	r.mustDo()
	r.holds(before)

	// An undo that was killed, and then its own undo.
	r.ask("r1/1", "", "") // what began and was given up can still be asked for
	if _, done := r.mustDo(); done.Runs != 2 {
		t.Errorf("%+v", done)
	}
	r.ask("u2/1", actionUndo, "r1/1")
	r.killed("put:3")
	r.ask("u3/1", actionUndo, "u2/1")
	r.afterKill()
	r.holds(afterwards())

	// An undo that was killed is not undone by asking for the first undo's data again.
	r.ask("r2/1", "", "")
	r.mustDo()
	r.ask("u4/1", actionUndo, "r2/1")
	r.killed("wipe:1")
	r.ask("u5/1", actionUndo, "r2/1")
	r.afterKill()
	r.holds(afterwards())

	// An undo of a restore that was killed, killed itself and given up for another
	// restore: the data from before the first are still what is kept.
	r = request(t, keepIfRoom)
	r.killed("moved")
	r.ask("u6/1", actionUndo, "r1/1")
	r.killed("put:2")
	r.ask("r3/1", "", "")
	r.afterKill()
	r.ask("u7/1", actionUndo, "r3/1")
	r.mustDo()
	r.holds(before)
}
