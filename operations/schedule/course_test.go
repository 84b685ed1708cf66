package schedule

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Random lives of schedules: controllers that are away, backups that last, get
// stuck or are others', suspensions, deletions. It has to hold that no time is made
// twice, that backups do not overlap, that after being away there is one, and that
// nothing blocks for ever.
func TestLives(t *testing.T) {
	for seed := range uint64(200) {
		live(t, seed)
	}
}

func live(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(6, seed))
	texts := []string{"* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "*/20 2-3 * * *"}
	zones := []string{"", "Europe/Berlin", "Australia/Lord_Howe"}
	now := stamp(t, []string{"2026-03-28T12:00Z", "2026-10-24T12:00Z", "2026-10-03T02:00Z", "2026-06-01T12:00Z"}[r.IntN(4)])
	spec := Spec{Cron: must(t, texts[r.IntN(len(texts))], zones[r.IntN(len(zones))]), UID: string(rune('a' + r.IntN(26))), Since: now,
		Jitter: time.Duration(r.IntN(3)) * 10 * time.Minute, Concurrency: []Concurrency{Forbid, Replace}[r.IntN(2)]}
	if r.IntN(2) == 0 {
		spec.StartingDeadline = new(time.Duration(r.IntN(3600)) * time.Second)
	}
	const timeout = 10 * time.Minute
	begin, state, made := now, State{}, map[time.Time]bool{}
	var runs int
	over := map[string]time.Time{} // when what is active ends of itself; those that are not here are stuck
	for range 400 {
		var still []Active
		for _, a := range state.Active {
			if end, ends := over[a.Name]; !ends || now.Before(end) {
				still = append(still, a)
			}
		}
		state.Active = still
		if !state.Deleting && r.IntN(60) == 0 {
			state.Active = append(state.Active, Active{Name: "by-hand", Started: now, Until: now.Add(timeout), Foreign: true})
			over["by-hand"] = now.Add(time.Duration(r.IntN(600)) * time.Second)
		}
		if spec.Suspend && r.IntN(5) == 0 {
			spec.Suspend, spec.Since = false, now
		} else if r.IntN(100) == 0 {
			spec.Suspend = true
		}
		state.Deleting = r.IntN(30) == 0

		d := Decide(now, spec, state)
		if again := Decide(now, spec, state); again.Action != d.Action || !again.Scheduled.Equal(d.Scheduled) || !again.At.Equal(d.At) {
			t.Fatalf("seed %d: %+v, and again %+v", seed, d, again)
		}
		for _, name := range d.Cancel {
			state.Active = without(state.Active, name)
		}
		switch d.Action {
		case Run:
			switch {
			case made[d.Scheduled]:
				t.Fatalf("seed %d: %s is made twice", seed, d.Scheduled)
			case state.Deleting || spec.Suspend:
				t.Fatalf("seed %d: made while deleting or suspended: %+v", seed, d)
			case d.Scheduled.After(now) || !d.Scheduled.After(spec.Since) || !d.Scheduled.After(state.Last):
				t.Fatalf("seed %d: %+v out of order, now %s, since %s, last %s", seed, d, now, spec.Since, state.Last)
			case spec.StartingDeadline != nil && now.Sub(d.Scheduled)-Delay(spec.UID, spec.Jitter) > *spec.StartingDeadline:
				t.Fatalf("seed %d: %+v too late at %s", seed, d, now)
			}
			for _, a := range state.Active {
				if !now.After(a.Until) {
					t.Fatalf("seed %d: %+v next to %s", seed, d, a.Name)
				}
			}
			made[d.Scheduled], state.Last = true, d.Scheduled
			runs++
			name := Name("s", d.Scheduled)
			state.Active = append(state.Active, Active{Name: name, Started: now, Until: now.Add(timeout)})
			if r.IntN(8) > 0 {
				over[name] = now.Add(time.Duration(r.IntN(600)) * time.Second)
			}
			// It is one, whatever was missed: asked again at once, nothing is due.
			if next := Decide(now, spec, state); next.Action == Run {
				t.Fatalf("seed %d: a second at once: %+v", seed, next)
			}
		case Skip:
			state.Last = d.Scheduled
		case Wait:
			if !d.At.IsZero() && !d.At.After(now) {
				t.Fatalf("seed %d: waits until %s, at %s", seed, d.At, now)
			}
		}
		step := time.Duration(1+r.IntN(90)) * time.Second
		switch {
		case r.IntN(40) == 0:
			step = time.Duration(r.IntN(48)) * time.Hour // away
		case d.Action == Wait && !d.At.IsZero() && r.IntN(3) > 0:
			step = d.At.Sub(now)
		}
		now = now.Add(step)
	}
	if limit := spec.Cron.Count(begin, now, 1<<20); runs > limit {
		t.Fatalf("seed %d: %d backups for %d times", seed, runs, limit)
	}

	// Left to itself it makes the next one within its distance, a timeout and a look.
	spec.Suspend, state.Deleting, spec.StartingDeadline = false, false, nil
	for range 100 {
		d := Decide(now, spec, state)
		for _, name := range d.Cancel {
			state.Active = without(state.Active, name)
		}
		if d.Action == Run {
			return
		}
		now = d.At
	}
	t.Fatalf("seed %d: nothing is made any more", seed)
}

func without(active []Active, name string) (rest []Active) {
	for _, a := range active {
		if a.Name != name {
			rest = append(rest, a)
		}
	}
	return rest
}
