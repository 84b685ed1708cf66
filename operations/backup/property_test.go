package backup

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

var seedFlag = flag.Uint64("seed", 0, "the one seed of the simulations to run, with its log")

// simSeeds are how many courses of events are tried.
const simSeeds = 300

func seeds() []uint64 {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	list := make([]uint64, simSeeds)
	for i := range list {
		list[i] = uint64(i) + 1
	}
	return list
}

// play lets things happen until the Backup is over, or for so many steps.
func (s *sim) play(steps int, each func(step int)) {
	r := s.controller()
	due := s.now
	for i := range steps {
		each(i)
		s.now = s.now.Add(time.Duration(s.rand.IntN(1500)) * time.Millisecond)
		if !s.now.Before(due) {
			after, ok := s.reconcile(r)
			if !ok {
				r, after = s.controller(), time.Duration(s.rand.IntN(5000))*time.Millisecond
			}
			due = s.now.Add(after)
			if after == 0 {
				due = s.now.Add(time.Second) // as if the informer had something new
			}
		}
		s.happens()
		if s.quiet() {
			s.reconcile(r) // it hears of that
			return
		}
	}
}

// quiet tells whether nothing further is going to happen.
func (s *sim) quiet() bool {
	if s.lagging == nil || s.object == nil {
		return s.object == nil && s.lagging == nil
	}
	return !s.goes && s.object.DeletionTimestamp == nil && s.object.Status.Phase.Final() && s.lagging.ResourceVersion == s.object.ResourceVersion
}

func (s *sim) report(t *testing.T, seed uint64) {
	t.Helper()
	log := s.log
	if *seedFlag == 0 {
		log = log[max(0, len(log)-60):]
	}
	t.Fatalf("seed %d: %s\n%s", seed, strings.Join(s.problems, "; "), strings.Join(log, "\n"))
}

// Undisturbed, a Backup is complete, at little cost.
func TestUndisturbed(t *testing.T) {
	for _, seed := range seeds() {
		s := newSim(seed)
		s.play(5000, func(int) {})
		if s.object.Status.Phase != api.BackupComplete || s.object.Status.Progress.Pods == "" || s.begun != len(s.nodes) || s.object.Status.Database != "4.1.10" {
			s.wrong("it ended as %s after %d begins: %s", s.object.Status.Phase, s.begun, s.object.Status.Message)
		}
		if most := 6 * len(s.nodes); s.requests > most {
			s.wrong("%d requests for %d pods", s.requests, len(s.nodes))
		}
		if len(s.problems) > 0 {
			s.report(t, seed)
		}
	}
}

// TestCrashes lets the controller end before or after anything it does, pods be deleted
// and be read before their containers run, Medusas fail, be started anew or be silent, and
// the storage be down; and asks for a
// true end within the timeout.
func TestCrashes(t *testing.T) {
	ends := map[api.BackupPhase]int{}
	crashed, checked := 0, 0
	for _, seed := range seeds() {
		s := newSim(seed)
		s.crashes, s.flakes, s.breaks = 0.1*s.rand.Float64(), 0.05*s.rand.Float64(), 0.3*s.rand.Float64()
		s.comes, s.rolls = s.rand.IntN(4) > 0, s.rand.IntN(3)
		if s.rand.IntN(4) == 0 {
			s.other = s.now.Add(time.Duration(s.rand.IntN(600)) * time.Second)
		}
		trouble := 50 + s.rand.IntN(400)
		cancel := -1
		if s.rand.IntN(5) == 0 {
			cancel = s.rand.IntN(300)
		}
		sturdy := cancel < 0 && s.comes && s.rand.IntN(2) == 0
		if sturdy {
			s.object.Spec.Retries = new(int32(10))
			s.lagging = s.object.DeepCopy()
		}
		s.play(30000, func(i int) {
			if i < trouble && s.chance(0.03) {
				s.byHand()
			}
			if i == cancel {
				s.object.Spec.Cancel = true
				s.object.Generation++
				s.object.ResourceVersion = s.bump()
			}
			if i == trouble {
				s.crashes, s.flakes, s.breaks = 0, 0, 0
				s.object.Spec.Suspend = false
				s.object.Generation++
				s.object.ResourceVersion = s.bump()
			}
		})
		if phase := s.object.Status.Phase; sturdy && phase != api.BackupComplete {
			s.wrong("nothing was in the way for long, and it is %s", phase)
		}
		status := &s.object.Status
		if !status.Phase.Final() || s.turn == "b" {
			s.wrong("it ended as %s, turn %q: %s", status.Phase, s.turn, status.Message)
		}
		if len(s.problems) > 0 {
			s.report(t, seed)
		}
		ends[status.Phase]++
		crashed += s.crashed
		checked += s.checked
	}
	t.Logf("%v, %d crashes, %d times created anew while checked", ends, crashed, checked)
	if *seedFlag == 0 && (crashed < simSeeds/2 || checked < simSeeds/10 || ends[api.BackupComplete] < simSeeds/10 || ends[api.BackupPartial] == 0 || ends[api.BackupFailed] == 0 || ends[api.BackupCancelled] == 0) {
		t.Errorf("%v, %d crashes: too little happens for this to show anything", ends, crashed)
	}
}

// TestDeletion deletes a Backup at any time, and asks that its data go or stay as its
// policy says, and that the object always goes.
func TestDeletion(t *testing.T) {
	deleted, kept := 0, 0
	for _, seed := range seeds() {
		s := newSim(seed)
		s.crashes, s.flakes, s.breaks = 0.1*s.rand.Float64(), 0.05*s.rand.Float64(), 0.2*s.rand.Float64()
		s.goes = true
		at, policy := s.rand.IntN(400), []api.DeletionPolicy{api.DeletionKeep, api.DeletionDelete}[s.rand.IntN(2)]
		s.play(30000, func(i int) {
			if i == at {
				s.delete(policy)
			}
			if i < at+200 && s.chance(0.02) {
				s.byHand()
			}
			if i == at+200 {
				s.crashes, s.flakes, s.breaks = 0, 0, 0
			}
			if s.object != nil && s.object.Status.Phase.Final() && s.object.DeletionTimestamp == nil {
				s.delete(policy)
			}
		})
		if s.object != nil || s.turn == "b" {
			s.wrong("it has not gone: turn %q", s.turn)
		}
		if len(s.problems) > 0 {
			s.report(t, seed)
		}
		if s.deleted {
			deleted++
		} else if slices.Contains(s.events, eventKept) {
			kept++
		}
	}
	t.Logf("%d deleted, %d kept", deleted, kept)
	if *seedFlag == 0 && (deleted < simSeeds/10 || kept < simSeeds/10) {
		t.Errorf("%d deleted, %d kept: too little happens for this to show anything", deleted, kept)
	}
}
