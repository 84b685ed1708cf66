package restore

import (
	"slices"
	"strings"
	"testing"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// TestAnnaCrashes is TestCrashes for a cluster of Anna: the controller ends anywhere, pods
// are deleted and databases killed while keys are written, and when the Restore says that
// it is done each node has what belongs to it.
func TestAnnaCrashes(t *testing.T) {
	rounds, posted := 0, 0
	for _, seed := range seeds(simSeeds / 2) {
		s := newAnnaSim(seed)
		s.ask()
		s.restore_.Spec.Source, s.restore_.Spec.Parallel = nil, int32(s.rand.IntN(2))
		s.restore_.Spec.Mode = []api.RestoreMode{api.InPlace, api.InPlace, api.Merge}[s.rand.IntN(3)]
		s.crashes, s.flakes = 0.1*s.rand.Float64(), 0.05*s.rand.Float64()
		s.leaky = s.rand.IntN(4) == 0
		trouble := 50 + s.rand.IntN(300)
		s.play(20000, func(i int) {
			if i < trouble && s.chance(0.05) {
				s.byHand()
			}
			if i == trouble {
				s.webhookDown, s.crashes, s.flakes = false, 0, 0
			}
		})
		status := &s.restore_.Status
		if status.Phase != api.RestoreCompleted || held(s.restore_) || len(status.Pods) != s.replicas {
			s.wrong("it ended as %s %s, held %v, %+v: %s", status.Phase, status.Progress, held(s.restore_), status.Pods, status.Message)
		}
		given := map[string]int{}
		for i := range status.Pods {
			for _, part := range status.Pods[i].Sources() {
				given[part]++
			}
		}
		if slices.ContainsFunc(s.anna.parts, func(part string) bool { return given[part] != 1 }) || len(given) != len(s.anna.parts) {
			s.wrong("the parts are dealt out as %v", given)
		}
		if lacks := s.lost(); len(lacks) > 0 && !s.lostSince() {
			s.wrong("it is complete without %s", strings.Join(lacks, ", "))
		}
		if s.restore_.Spec.Mode == api.Merge && s.deleted > 0 {
			s.wrong("a merge has deleted pods")
		}
		if len(s.problems) > 0 {
			s.report(t, seed)
		}
		rounds, posted = rounds+int(status.Round), posted+s.anna.posted
	}
	t.Logf("%d rounds, %d replays asked for", rounds, posted)
	if *seedFlag == 0 && rounds < 20 {
		t.Errorf("only %d times was a node lost while keys were written", rounds)
	}
}

// lostSince tells whether a node was lost after the Restore was over, which is nobody's
// fault here.
func (s *sim) lostSince() bool {
	over := 0
	for i, line := range s.log {
		if strings.Contains(line, "status Completed") {
			over = i
		}
	}
	for _, line := range s.log[over:] {
		if strings.Contains(line, "by hand: delete") || strings.Contains(line, "by hand: kill") {
			return true
		}
	}
	return false
}
