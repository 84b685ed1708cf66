package restore

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

var seedFlag = flag.Uint64("seed", 0, "the one seed of TestCrashes to run, with its log")

// simSeeds are how many courses of events TestCrashes tries.
const simSeeds = 1500

// ask makes a Restore of some of the pods.
func (s *sim) ask() {
	r := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "r", Generation: 1, CreationTimestamp: metav1.NewTime(today), ResourceVersion: s.bump()},
		Spec: api.RestoreSpec{Backup: "nightly", Mode: api.InPlace, WhenNoBackup: api.NoBackupFail, KeepPrevious: api.KeepIfRoom, Deadline: &metav1.Duration{Duration: 100 * time.Hour}}}
	for i := range s.replicas {
		if len(r.Spec.Pods.Names) == 0 || s.rand.IntN(4) > 0 {
			r.Spec.Pods.Names = append(r.Spec.Pods.Names, "cas-"+strconv.Itoa(i))
		}
	}
	r.Spec.Parallel = int32(s.rand.IntN(3))
	if s.rand.IntN(3) == 0 {
		r.Spec.Mode = api.Remote
		r.Spec.Source = &api.RestoreSource{Nodes: map[string]string{}}
		for _, name := range r.Spec.Pods.Names {
			r.Spec.Source.Nodes[name] = name
		}
	}
	s.restore_ = r
}

// play lets things happen until the Restore is over, or for so many steps.
func (s *sim) play(steps int, each func(step int)) {
	r, sweeps := s.controller(), s.sweeper()
	due, sweep, marks := s.now, s.now, s.now
	for i := range steps {
		each(i)
		s.now = s.now.Add(time.Duration(s.rand.IntN(400)) * time.Millisecond)
		if !s.now.Before(due) {
			after, ok := s.reconcile(r, "r")
			if !ok {
				r, sweeps, after = s.controller(), s.sweeper(), time.Duration(s.rand.IntN(5000))*time.Millisecond
			}
			if due = s.now.Add(after); after == 0 {
				due = s.now.Add(time.Second) // as if an event had come
			}
		}
		if s.now.After(sweep) {
			sweep = s.now.Add(sweepEvery)
			s.sweep(sweeps)
		}
		if s.now.After(marks) {
			marks = s.now.Add(marksEvery)
			s.survives(func() error { return r.sweepMarks(context.Background()) })
		}
		s.world()
		if s.quiet() {
			return
		}
	}
}

// quiet tells whether nothing further is going to happen.
func (s *sim) quiet() bool {
	if s.restore_ != nil && (!s.restore_.Status.Phase.Final() || held(s.restore_)) || len(s.pods_) < s.replicas || s.marked_ {
		return false
	}
	for _, pod := range s.pods_ {
		if !ready(pod) || pod.DeletionTimestamp != nil {
			return false
		}
	}
	return true
}

func (s *sim) report(t *testing.T, seed uint64) {
	t.Helper()
	log := s.log
	if *seedFlag == 0 {
		log = log[max(0, len(log)-60):]
	}
	t.Fatalf("seed %d: %s\n%s", seed, strings.Join(s.problems, "; "), strings.Join(log, "\n"))
}

func seeds(n uint64) []uint64 {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	list := make([]uint64, n)
	for i := range list {
		list[i] = uint64(i) + 1
	}
	return list
}

// TestCrashes lets the controller end before or after any of its writes, pods be
// deleted by hand, the webhook be down and informers lag, and asks for each pod to be
// restored once, and no database to start before.
func TestCrashes(t *testing.T) {
	deleted, crashes := 0, 0
	for _, seed := range seeds(simSeeds) {
		s := newSim(seed)
		s.ask()
		s.crashes, s.flakes = 0.1*s.rand.Float64(), 0.05*s.rand.Float64()
		s.leaky = s.rand.IntN(4) == 0
		asked := slices.Clone(s.restore_.Spec.Pods.Names)
		trouble := 50 + s.rand.IntN(300)
		s.play(20000, func(i int) {
			if i < trouble && s.chance(0.05) {
				s.byHand()
			}
			if i == trouble {
				s.webhookDown, s.crashes, s.flakes = false, 0, 0
			}
		})
		if s.restore_.Status.Phase != api.RestoreCompleted || held(s.restore_) || s.restore_.Status.Progress.Pods != fmt.Sprintf("%d/%[1]d", len(asked)) {
			s.wrong("it ended as %s %s, held %v, %+v: %s", s.restore_.Status.Phase, s.restore_.Status.Progress, held(s.restore_), s.restore_.Status.Pods, s.restore_.Status.Message)
		}
		for name, d := range s.disks {
			want := 0
			if slices.Contains(asked, name) {
				want = 1
			}
			if d.runs != want || d.half {
				s.wrong("%s was restored %d times, half %v", name, d.runs, d.half)
			}
		}
		for uid, n := range s.removed {
			if n > 1 {
				s.wrong("%s was deleted %d times", uid, n)
			}
		}
		if len(s.problems) > 0 {
			s.report(t, seed)
		}
		deleted += s.deleted
		crashes += strings.Count(strings.Join(s.log, "\n"), "crash ")
	}
	t.Logf("%d deletions, %d crashes", deleted, crashes)
	if *seedFlag == 0 && (deleted < simSeeds || crashes < simSeeds) {
		t.Errorf("only %d deletions and %d crashes: too little happens for this to show anything", deleted, crashes)
	}
}
