package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule/retention"
)

func TestDecide(t *testing.T) {
	const day = "2026-11-30T"
	at := func(clock string) time.Time { return stamp(t, day+clock+"Z") }
	nightly := Spec{Cron: must(t, "0 3 * * *", ""), Concurrency: Forbid, Since: stamp(t, "2026-11-20T12:00Z")}
	yesterday := stamp(t, "2026-11-29T03:00Z")
	limit := func(d time.Duration) func(*Spec) { return func(s *Spec) { s.StartingDeadline = &d } }
	replace := func(s *Spec) { s.Concurrency = Replace }
	running := Active{Name: "nightly-1", Started: at("02:50"), Until: at("04:00")}
	foreign := Active{Name: "by-hand", Started: at("02:40"), Until: at("04:00"), Foreign: true}

	for _, tt := range []struct {
		name   string
		now    time.Time
		change func(*Spec)
		state  State
		action Action
		reason Reason
		says   string
		at     time.Time // of Wait
		missed int
		cancel []string
	}{
		{name: "before", now: at("02:59"), state: State{Last: yesterday}, action: Wait, reason: NotYet, says: "next at 2026-11-30 03:00 UTC", at: at("03:00")},
		{name: "due", now: at("03:00"), state: State{Last: yesterday}, action: Run, reason: Due, says: "the backup of 2026-11-30 03:00 UTC"},
		{name: "done", now: at("03:00"), state: State{Last: at("03:00")}, action: Wait, reason: NotYet, at: stamp(t, "2026-12-01T03:00Z")},
		{name: "late", now: at("05:30"), state: State{Last: yesterday}, action: Run, reason: Overdue, says: "2h30m0s late"},
		{name: "days late: one, and it says so", now: at("05:30"), state: State{Last: stamp(t, "2026-11-26T03:00Z")}, action: Run, reason: Overdue, says: "in place of 3 more that were missed", missed: 3},
		{name: "never made one", now: at("03:00"), action: Run, reason: Due, missed: 9},
		{name: "created after", now: at("03:10"), change: func(s *Spec) { s.Since = at("03:05") }, action: Wait, reason: NotYet, at: stamp(t, "2026-12-01T03:00Z")},
		{name: "resumed after", now: at("03:10"), change: func(s *Spec) { s.Since = at("03:05") }, state: State{Last: yesterday}, action: Wait, reason: NotYet, at: stamp(t, "2026-12-01T03:00Z")},
		{name: "suspended", now: at("03:00"), change: func(s *Spec) { s.Suspend = true }, state: State{Last: yesterday}, action: Wait, reason: Suspended},
		{name: "within the deadline", now: at("03:10"), change: limit(10 * time.Minute), state: State{Last: yesterday}, action: Run, reason: Overdue},
		{name: "too late", now: at("03:11"), change: limit(10 * time.Minute), state: State{Last: yesterday}, action: Skip, reason: TooLate, says: "11m0s late, and startingDeadline is 10m0s", at: stamp(t, "2026-12-01T03:00Z")},
		{name: "one goes on", now: at("03:00"), state: State{Last: yesterday, Active: []Active{running}}, action: Wait, reason: Busy, says: "waits for backup nightly-1, which began at 2026-11-30 02:50 UTC", at: at("03:01")},
		{name: "one goes on, until it is too late", now: at("03:00"), change: limit(30 * time.Second), state: State{Last: yesterday, Active: []Active{running}}, action: Wait, reason: Busy, at: at("03:00").Add(31 * time.Second)},
		{name: "one goes on, until it is stuck", now: at("03:00"), state: State{Last: yesterday, Active: []Active{{Name: "x", Until: at("03:00").Add(9 * time.Second)}}}, action: Wait, reason: Busy, at: at("03:00").Add(10 * time.Second)},
		{name: "one without a limit goes on", now: at("03:00"), state: State{Last: yesterday, Active: []Active{{Name: "x"}}}, action: Wait, reason: Busy, at: at("03:01")},
		{name: "one is stuck", now: at("04:01"), state: State{Last: yesterday, Active: []Active{running}}, action: Run, reason: Overdue, cancel: []string{"nightly-1"}},
		{name: "another's is stuck", now: at("04:01"), state: State{Last: yesterday, Active: []Active{foreign}}, action: Run, reason: Overdue},
		{name: "replaced", now: at("03:00"), change: replace, state: State{Last: yesterday, Active: []Active{running}}, action: Run, reason: Due, cancel: []string{"nightly-1"}},
		{name: "another's is not replaced", now: at("03:00"), change: replace, state: State{Last: yesterday, Active: []Active{foreign}}, action: Wait, reason: Busy, says: "by-hand", at: at("03:01")},
		{name: "nothing is cancelled before its time", now: at("02:59"), change: replace, state: State{Last: yesterday, Active: []Active{running}}, action: Wait, reason: NotYet, at: at("03:00")},
		{name: "deleting", now: at("03:00"), state: State{Last: yesterday, Deleting: true}, action: Wait, reason: Cleaning, says: "waits for the deletion", at: at("03:01")},
		{name: "deleting, nothing due", now: at("02:00"), state: State{Last: yesterday, Deleting: true}, action: Wait, reason: NotYet, at: at("03:00")},
		{name: "the other controller's clock was ahead", now: at("02:59"), state: State{Last: at("03:00")}, action: Wait, reason: NotYet, at: stamp(t, "2026-12-01T03:00Z")},
		{name: "a last run in the future is not believed", now: at("03:00"), state: State{Last: stamp(t, "2099-01-01T03:00Z")}, action: Run, reason: Due, missed: 9},
		{name: "nor a beginning", now: at("03:00"), change: func(s *Spec) { s.Since = stamp(t, "2099-01-01T03:00Z") }, state: State{Last: at("03:00")}, action: Wait, reason: NotYet, at: stamp(t, "2026-12-01T03:00Z")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := nightly
			if tt.change != nil {
				tt.change(&spec)
			}
			d := Decide(tt.now, spec, tt.state)
			if d.Action != tt.action || d.Reason != tt.reason || !strings.Contains(d.Message, tt.says) || d.Missed != tt.missed || !slices.Equal(d.Cancel, tt.cancel) || !d.At.Equal(tt.at) {
				t.Errorf("got %+v", d)
			}
			switch d.Action {
			case Run, Skip:
				if !d.Scheduled.Equal(at("03:00")) || !d.Next.Equal(stamp(t, "2026-12-01T03:00Z")) {
					t.Errorf("scheduled %s, next %s", d.Scheduled, d.Next)
				}
			case Wait:
				if !d.At.IsZero() && !d.At.After(tt.now) {
					t.Errorf("waits until %s, now %s", d.At, tt.now)
				}
			}
		})
	}
}

func TestReplaceWithAnothersKeepsOwn(t *testing.T) {
	now := stamp(t, "2026-11-30T03:00Z")
	spec := Spec{Cron: must(t, "0 3 * * *", ""), Concurrency: Replace, Since: now.Add(-time.Hour)}
	d := Decide(now, spec, State{Active: []Active{{Name: "own"}, {Name: "theirs", Foreign: true}}})
	if d.Action != Wait || len(d.Cancel) != 0 {
		t.Errorf("got %+v: what goes on is cancelled for nothing", d)
	}
}

func TestStuckIsCancelledThoughAnotherGoesOn(t *testing.T) {
	now := stamp(t, "2026-11-30T03:00Z")
	spec := Spec{Cron: must(t, "0 3 * * *", ""), Concurrency: Forbid, Since: now.Add(-time.Hour)}
	d := Decide(now, spec, State{Active: []Active{{Name: "own", Until: now.Add(-time.Minute)}, {Name: "theirs", Foreign: true}}})
	if d.Action != Wait || !slices.Equal(d.Cancel, []string{"own"}) {
		t.Errorf("got %+v", d)
	}
}

func TestJitter(t *testing.T) {
	spec := Spec{Cron: must(t, "0 3 * * *", "Europe/Berlin"), UID: "5a1f", Jitter: time.Hour, Since: stamp(t, "2026-11-29T12:00Z")}
	delay := Delay(spec.UID, spec.Jitter)
	if delay <= 0 || delay >= time.Hour {
		t.Fatal(delay)
	}
	three := stamp(t, "2026-11-30T02:00Z")
	d := Decide(three, spec, State{})
	if begins := three.Add(delay); d.Action != Wait || !d.At.Equal(begins) || !d.Next.Equal(begins) {
		t.Errorf("at the time: %+v", d)
	}
	d = Decide(three.Add(delay), spec, State{})
	if d.Action != Run || d.Reason != Due || !d.Scheduled.Equal(three) || !strings.Contains(d.Message, "CET") {
		t.Errorf("at the delayed time: %+v", d)
	}
	// The delay is no lateness.
	spec.StartingDeadline = new(time.Second)
	if d = Decide(three.Add(delay), spec, State{}); d.Action != Run {
		t.Errorf("with a short deadline: %+v", d)
	}
}

func TestDelaysSpread(t *testing.T) {
	var quarters [4]int
	for i := range 400 {
		uid := "0c1b5b0e-0000-4000-8000-000000000" + string(rune('a'+i%20)) + string(rune('a'+i/20))
		d := Delay(uid, time.Hour)
		if d != Delay(uid, time.Hour) || d < 0 || d >= time.Hour {
			t.Fatal(d)
		}
		quarters[d/(15*time.Minute)]++
	}
	for _, n := range quarters {
		if n < 70 || n > 130 {
			t.Errorf("not even: %v", quarters)
		}
	}
	for _, limit := range []time.Duration{0, -time.Hour, time.Millisecond} {
		if d := Delay("x", limit); d != 0 {
			t.Errorf("limit %s: %s", limit, d)
		}
	}
}

func TestName(t *testing.T) {
	at := stamp(t, "2026-11-30T03:00+01:00")
	if got := Name("nightly", at); got != "nightly-20261130-020000" {
		t.Error(got)
	}
	long := strings.Repeat("n", 46)
	if got := Name(long, at); got != long+"-20261130-020000" {
		t.Error(got)
	}
	a, b := Name(long+"a", at), Name(long+"b", at)
	if a == b || len(a) != maxName || len(b) != maxName {
		t.Error(a, b)
	}
	// A schedule is known again from the name in the storage, which begins with digits:
	// no name of a schedule makes it an unsafe one.
	for _, name := range []string{"data", "database", "d", "nightly", long} {
		object := Name(name, at)
		b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Name: object, UID: "u", Labels: map[string]string{api.LabelSchedule: name}, CreationTimestamp: metav1.NewTime(at)}}
		if parts, ok := api.ParseStorageName(b.StorageName()); !ok || parts.Schedule != name || !retention.SafeName(b.StorageName()) {
			t.Errorf("%s: %+v", b.StorageName(), parts)
		}
		if got, ok := Scheduled(name, object); !ok || !got.Equal(at) {
			t.Errorf("%s is of %s, %v", object, got, ok)
		}
	}
	for _, name := range []string{"", "nightly", "nightly-20261330-020000", "20261130-020000", "other-20261130-020000", "nightly-x-20261130-020000"} {
		if got, ok := Scheduled("nightly", name); ok {
			t.Errorf("%q is taken for one of %s", name, got)
		}
	}
	if got := Name(strings.Repeat("n", 36)+"-."+strings.Repeat("m", 30), at); strings.Contains(got, "-.") || strings.Contains(got, "--") {
		t.Error(got)
	}
}
