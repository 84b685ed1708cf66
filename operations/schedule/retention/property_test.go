package retention

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// rounds are how many random cases each property is tried on.
const rounds = 1000

// random makes storages and policies.
type random struct{ *rand.Rand }

func (r random) one(n int) bool { return r.IntN(n) == 0 }

// item is a backup of some name, mostly a good one.
func (r random) item(name string) Item {
	it := item(name, time.Duration(r.IntN(120*24))*time.Hour+time.Duration(r.IntN(3))*time.Minute)
	if r.one(5) {
		it.State = []State{Incomplete, Incomplete, Missing}[r.IntN(3)]
	}
	if r.one(150) {
		it.State = []State{Active, Deleting}[r.IntN(2)]
	}
	if r.one(12) {
		it.Objects = 0
	}
	if r.one(20) {
		it.When = []time.Time{{}, today.Add(50 * day)}[r.IntN(2)]
	}
	it.Listed, it.Own = !r.one(12), !r.one(6)
	it.Pinned, it.Verified = r.one(12), r.one(4)
	if r.one(20) {
		it.UsedBy = "Restore r"
	}
	return it
}

// storage has up to so many; with names of one width, or such as b1, b10, da.
func (r random) storage(n int, wide bool) Storage {
	s := Storage{Listed: today.Add(-time.Duration(r.IntN(10)) * time.Minute)}
	for i := range r.IntN(n + 1) {
		name := fmt.Sprintf("b-%04d", i)
		if !wide {
			name = []string{"b", "d", "x"}[r.IntN(3)] + []string{"", "", "a", "ata", "1", "10", "100", "2"}[r.IntN(8)]
		}
		s.Items = append(s.Items, r.item(name))
	}
	if r.one(10) {
		s.Failed = "timeout"
	}
	return s
}

func (r random) policy() Policy {
	n := func(limit int) int {
		if r.one(2) {
			return 0
		}
		return 1 + r.IntN(limit)
	}
	zones := []string{"UTC", "Europe/Berlin", "Pacific/Auckland"}
	zone, err := time.LoadLocation(zones[r.IntN(len(zones))])
	if err != nil {
		panic(err)
	}
	return Policy{Last: n(5), Within: time.Duration(n(200)) * time.Hour, Daily: n(10), Weekly: n(8), Monthly: n(4), Zone: zone, Incomplete: time.Duration(n(30)) * day}
}

func (p Policy) rules() bool { return p.Last+p.Daily+p.Weekly+p.Monthly > 0 || p.Within > 0 }

func each(t *testing.T, try func(r random) string) {
	t.Helper()
	for seed := range uint64(rounds) {
		if wrong := try(random{rand.New(rand.NewPCG(36, seed))}); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}

func names(ds []Decision) (out []string) {
	for _, d := range ds {
		out = append(out, d.Name)
	}
	return out
}

// good are the complete backups of this schedule that are there.
func good(items []Item) (n int) {
	for _, it := range items {
		if it.Own && it.State == Complete && it.Objects > 0 && it.Listed && !it.When.IsZero() && !it.When.After(today) {
			n++
		}
	}
	return n
}

func TestOrderDoesNotMatter(t *testing.T) {
	each(t, func(r random) string {
		s, p := r.storage(30, r.one(2)), r.policy()
		want := Keep(s, p, today)
		before := slices.Clone(s.Items)
		for i, j := range s.Items {
			if j != before[i] {
				return "Keep changed its arguments"
			}
		}
		r.Shuffle(len(s.Items), func(i, j int) { s.Items[i], s.Items[j] = s.Items[j], s.Items[i] })
		if got := Keep(s, p, today); !reflect.DeepEqual(got, want) {
			return fmt.Sprintf("%s, and in another order %s", reasons(want), reasons(got))
		}
		return ""
	})
}

func TestDryRunIsTheRun(t *testing.T) {
	each(t, func(r random) string {
		s, p := r.storage(30, true), r.policy()
		run := Keep(s, p, today)
		p.DryRun = true
		dry := Keep(s, p, today)
		if dry.Deletes() != nil || !dry.DryRun {
			return "a dry run deletes"
		}
		if !reflect.DeepEqual(dry.Decisions, run.Decisions) || dry.Held != run.Held || dry.Waits != run.Waits {
			return "a dry run says something else"
		}
		return ""
	})
}

// Whatever is deleted, in whatever way Medusa does it: the newest complete one stays,
// and nothing goes that was to stay.
func TestNothingElseGoes(t *testing.T) {
	gone := 0
	each(t, func(r random) string {
		s, p := r.storage(30, r.one(2)), r.policy()
		had := good(s.Items)
		for range 100 {
			result := Keep(s, p, today)
			deletes := result.Deletes()
			if len(deletes) == 0 {
				break
			}
			stay := map[string]bool{}
			for _, d := range result.Decisions {
				stay[d.Name] = stay[d.Name] || !d.Delete
			}
			name := deletes[0].Name
			gone++
			for _, d := range deletes {
				if !d.Own || d.Pinned || d.UsedBy != "" || d.State == Active || len(d.Reasons) != 1 || !strings.HasPrefix(d.Message, "deleted: ") {
					return fmt.Sprintf("deletes %+v", d)
				}
			}
			s.Items = slices.DeleteFunc(slices.Clone(s.Items), func(it Item) bool {
				if it.Name != name && strings.HasPrefix(it.Name, name) || it.Name == name && stay[name] || strings.HasPrefix("data", name) {
					t.Fatalf("deleting %q deletes %q", name, it.Name)
				}
				return it.Name == name
			})
		}
		if had > 0 && good(s.Items) == 0 {
			return "no complete one is left"
		}
		return ""
	})
	if gone < rounds {
		t.Errorf("only %d deletions were tried", gone)
	}
}

// What is kept once stays kept when what is deleted has gone, and nothing more goes.
func TestOnceIsEnough(t *testing.T) {
	each(t, func(r random) string {
		s, p := r.storage(40, true), r.policy()
		gone := names(Keep(s, p, today).Would())
		s.Items = slices.DeleteFunc(s.Items, func(it Item) bool { return slices.Contains(gone, it.Name) })
		if more := Keep(s, p, today).Would(); len(more) > 0 {
			return fmt.Sprintf("%v, and then %v", gone, names(more))
		}
		return ""
	})
}

// Whoever asks for more to be kept has no less.
func TestMoreKeepsMore(t *testing.T) {
	each(t, func(r random) string {
		s, p := r.storage(40, true), r.policy()
		if !p.rules() {
			return "" // keeps all
		}
		more := p
		more.Last += r.IntN(3)
		more.Daily += r.IntN(3)
		more.Weekly += r.IntN(3)
		more.Monthly += r.IntN(3)
		more.Within += time.Duration(r.IntN(50)) * time.Hour
		if more.Incomplete > 0 {
			more.Incomplete += time.Duration(r.IntN(5)) * day
		}
		less := names(Keep(s, p, today).Would())
		for _, name := range names(Keep(s, more, today).Would()) {
			if !slices.Contains(less, name) {
				return fmt.Sprintf("%s is deleted by %+v and not by %+v", name, more, p)
			}
		}
		return ""
	})
}

// What was to go is not wanted again because a newer one has come.
func TestNewOnesKeepNoOld(t *testing.T) {
	each(t, func(r random) string {
		s, p := r.storage(40, true), r.policy()
		before := names(Keep(s, p, today).Would())
		later := today.Add(time.Duration(r.IntN(72)) * time.Hour)
		s.Items = append(s.Items, Item{Name: "b-9999", When: later, State: Complete, Objects: 1, Listed: true, Own: true})
		after := names(Keep(s, p, later).Would())
		for _, name := range before {
			if !slices.Contains(after, name) && !slices.ContainsFunc(s.Items, func(it Item) bool { return it.Name == name && it.When.After(today) }) {
				return name + " is kept again"
			}
		}
		return ""
	})
}

// A year and a half of backups every six hours, some of which fail, with clocks that
// change: there are as many as the rules say, and no more.
func TestLongRun(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	r := random{rand.New(rand.NewPCG(36, 1))}
	p := Policy{Last: 3, Daily: 7, Weekly: 4, Monthly: 6, Zone: zone, Incomplete: 3 * day}
	var s Storage
	most := 0
	for i := range 4 * 550 {
		now := today.Add(time.Duration(i) * 6 * time.Hour)
		it := Item{Name: now.Format("n-20060102-150405"), When: now, State: Complete, Objects: 1, Listed: true, Own: true, Verified: r.one(9)}
		if r.one(5) {
			it.State = Incomplete
		}
		s.Items, s.Listed = append(s.Items, it), now
		for _, d := range Keep(s, p, now).Deletes() {
			s.Items = slices.DeleteFunc(s.Items, func(it Item) bool { return it.Name == d.Name })
		}
		most = max(most, len(s.Items))
		if i > 4 && len(s.Items) == 0 {
			t.Fatal("nothing is left")
		}
	}
	months, days := map[string]bool{}, map[string]bool{}
	for _, it := range s.Items {
		if it.State == Complete {
			months[it.When.In(zone).Format("2006-01")] = true
			days[it.When.In(zone).Format("2006-01-02")] = true
		}
	}
	if len(months) != 6 || len(days) < 7+5 {
		t.Errorf("%d months, %d days", len(months), len(days))
	}
	if limit := 3 + 7 + 4 + 6 + 1 + 12; most > limit {
		t.Errorf("%d are kept, above %d", most, limit)
	}
}
