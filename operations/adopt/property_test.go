package adopt

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
)

// fate is a pod whose containers end as bytes say, and the clock.
type fate struct {
	t      testing.TB
	pod    *corev1.Pod
	has    []patches.Role
	now    time.Time
	rounds []time.Time
	failed []time.Time // those of them that were added for what had become of the one before
	by     [2]string   // pair and renew of the last
	renew  string
	pair   string
}

// step does what Plan says and checks that it keeps to the bounds.
func (f *fate) step() Step {
	p := Of(f.pod)
	p.Asked, p.Now, p.Renew, p.Pair = true, f.now, f.renew, f.pair
	s := Plan(p)
	switch s.Do {
	case DoAdd:
		f.bounded(s, p)
		f.rounds = append(f.rounds, f.now)
		if by := [2]string{f.pair, f.renew}; len(f.rounds) == 1 || by == f.by {
			f.failed = append(f.failed, f.now)
		} else {
			f.by = by
		}
		f.pod.Spec.EphemeralContainers = append(f.pod.Spec.EphemeralContainers,
			grafted(patches.Adoption{Next: s.Next, Roles: s.Roles, At: f.now, Pair: f.pair, Renew: f.renew}, f.has...)...)
		if n := len(adopted.Parts(f.pod)); n > MaxContainers {
			f.t.Fatalf("%d containers", n)
		}
	case DoLabel:
		label(f.pod)
	case DoUnlabel:
		f.pod.Labels = nil
	case DoNothing:
		if !s.Until.IsZero() && !s.Until.After(f.now) {
			f.t.Fatalf("at %v to be looked at at %v", f.now, s.Until)
		}
	}
	return s
}

func (f *fate) bounded(s Step, p Pod) {
	of := func(rounds []time.Time) (within int) {
		for _, at := range rounds {
			if at.After(f.now.Add(-day)) {
				within++
			}
		}
		return within
	}
	within := of(f.rounds)
	if within >= DefaultPerDay {
		f.t.Fatalf("round %d of a day, at %v: %+v", within+1, f.now, s)
	}
	if len(f.rounds) == 0 {
		return
	}
	l := look(p)
	failed := max(of(f.failed), 1)
	if l.stale(p) {
		failed = 1
	}
	if wait := f.now.Sub(f.rounds[len(f.rounds)-1]); wait < DefaultBackoff[failed-1] {
		f.t.Fatalf("round %d of a day %v after the one before", within+1, wait)
	}
	if l.state() == StateAdopted && !l.stale(p) {
		f.t.Fatalf("all are up, and %+v", s)
	}
}

// happens has one thing come about that a byte says.
func (f *fate) happens(b byte) {
	f.now = f.now.Add([]time.Duration{time.Second, 20 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 7 * time.Hour, 30 * time.Hour, 0}[b&7])
	if len(adopted.Parts(f.pod)) == 0 {
		return
	}
	role := f.has[int(b>>3&3)%len(f.has)]
	switch b >> 5 {
	case 0, 1:
		is(f.pod, role, ended(int32(b>>3&1), f.now))
	case 2:
		is(f.pod, role, waits("ImagePullBackOff"))
	case 3:
		is(f.pod, role, runs)
	case 4:
		f.renew += "."
	case 5:
		f.pair += "."
	default:
		allUp(f.pod)
	}
}

// settles has all that is added come up from now on, and Plan come to an end.
func (f *fate) settles() {
	calm := 0
	for range 200 {
		s := f.step()
		switch {
		case s.Do == DoAdd:
			allUp(f.pod)
			calm = 0
		case s.Do == DoNothing && s.State == StateAdopted && s.Reason == "":
			if calm++; calm > 3 {
				return
			}
		case s.Reason == ReasonExhausted && s.Until.IsZero():
			if len(f.pod.Spec.EphemeralContainers) < MaxContainers-len(f.has) {
				f.t.Fatalf("given up with %d containers", len(f.pod.Spec.EphemeralContainers))
			}
			return
		case s.State == StateAdopting, s.State == StateWaiting && s.Reason == "":
			allUp(f.pod) // the kubelet went on trying
		}
		f.now = later(f.now.Add(time.Minute), s.Until)
	}
	f.t.Fatalf("it does not settle: %+v", f.step())
}

func (f *fate) live(fortunes []byte) {
	for _, b := range fortunes {
		f.step()
		f.step() // twice is once
		f.happens(b)
	}
	f.settles()
}

func newFate(t testing.TB, kind byte) *fate {
	has := [][]patches.Role{cassandra, {patches.RoleAgent, patches.RoleMedusa}, {patches.RoleAgent}}[int(kind)%3]
	return &fate{t: t, pod: aPod("c-0", "c", "n"), has: has, now: start, pair: "p", by: [2]string{"p", ""}}
}

// FuzzPlan has containers end, wait and run in any order, for months.
func FuzzPlan(f *testing.F) {
	f.Add(byte(0), []byte{})
	f.Add(byte(0), []byte{2, 2, 2, 2, 2, 2, 2, 2, 2, 2})
	f.Add(byte(2), []byte{6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6})
	f.Add(byte(1), []byte{0x84, 0xa4, 0x47, 0x84, 0xa4, 0x10, 0xff})
	f.Fuzz(func(t *testing.T, kind byte, fortunes []byte) {
		newFate(t, kind).live(fortunes)
	})
}

func TestPlanAnyFate(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	for n := range 200 {
		fortunes := make([]byte, random.IntN(120))
		for i := range fortunes {
			fortunes[i] = byte(random.Uint32())
		}
		newFate(t, byte(n)).live(fortunes)
	}
}
