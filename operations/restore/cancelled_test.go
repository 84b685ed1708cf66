package restore

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// TestCancelled cancels or deletes a Restore at any time, before or after its deadline,
// suspends it and lets it go on, and asks for every database to be up in the end, for
// no pod to be pending, and for nothing to be deleted twice.
func TestCancelled(t *testing.T) {
	ends := map[string]int{}
	for _, seed := range seeds(simSeeds) {
		s := newSim(seed)
		s.ask()
		s.crashes, s.flakes = 0.1*s.rand.Float64(), 0.05*s.rand.Float64()
		if s.rand.IntN(2) == 0 {
			s.restore_.Spec.Deadline = &metav1.Duration{Duration: time.Duration(1+s.rand.IntN(60)) * time.Second}
		}
		end, by := 5+s.rand.IntN(300), s.rand.IntN(2)
		s.play(20000, func(i int) {
			r := s.restore_
			if r == nil {
				s.webhookDown, s.crashes, s.flakes = false, 0, 0
				return
			}
			switch {
			case i < end && s.chance(0.03):
				s.byHand()
			case i < end && s.chance(0.03):
				r.Spec.Suspend, r.ResourceVersion = !r.Spec.Suspend, s.bump()
				r.Generation++
			case i == end && by == 0:
				s.logf("by hand: cancel")
				r.Spec.Cancel, r.ResourceVersion = true, s.bump()
				r.Generation++
			case i == end && held(r):
				s.logf("by hand: delete the Restore")
				r.DeletionTimestamp, r.ResourceVersion = new(metav1.NewTime(s.now)), s.bump()
				r.Generation++
			case i == end:
				s.restore_ = nil
			}
			if i == end {
				s.webhookDown, s.crashes, s.flakes = false, 0, 0
			}
		})
		phase := "deleted"
		if s.restore_ != nil {
			phase = string(s.restore_.Status.Phase)
		}
		ends[phase]++
		s.judgeEnd(phase)
		if len(s.problems) > 0 {
			s.report(t, seed)
		}
	}
	t.Log(ends)
	for _, phase := range []string{"deleted", string(api.RestoreCancelled), string(api.RestoreCompleted)} {
		if *seedFlag == 0 && ends[phase] < 50 {
			t.Errorf("only %d of %d came to be %s", ends[phase], simSeeds, phase)
		}
	}
}

func (s *sim) judgeEnd(phase string) {
	if !s.quiet() {
		s.wrong("it ended as %s, and not every database is up", phase)
	}
	if r := s.restore_; r != nil && (!r.Status.Phase.Final() || len(r.Status.Pending) > 0 || held(r)) {
		s.wrong("it ended as %s, pending %v, held %v", phase, r.Status.Pending, held(r))
	}
	for name, d := range s.disks {
		if d.runs > 1 {
			s.wrong("%s was restored %d times", name, d.runs)
		}
		if d.half && s.restore_ != nil {
			at := s.restore_.Status.Pod(name)
			if at == nil || len(at.Message) < 6 || at.Message[:6] != "DANGER" {
				s.wrong("the data of %s are half replaced, and it says %+v", name, at)
			}
		}
	}
	for uid, n := range s.removed {
		if n > 1 {
			s.wrong("%s was deleted %d times", uid, n)
		}
	}
	for _, pod := range s.pods_ {
		if hasGate(pod) {
			s.wrong("%s still has its gate", pod.Name)
		}
	}
	if !slices.Contains([]string{"deleted", "Cancelled", "Completed", "Failed"}, phase) {
		s.wrong("it ended as %s", phase)
	}
}
