package retention

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var today = time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)

// item is a complete backup of this schedule, so long ago.
func item(name string, ago time.Duration, change ...func(*Item)) Item {
	it := Item{Name: name, When: today.Add(-ago), State: Complete, Objects: 100, Listed: true, Own: true}
	for _, f := range change {
		f(&it)
	}
	return it
}

func pinned(it *Item)            { it.Pinned = true }
func verified(it *Item)          { it.Verified = true }
func foreign(it *Item)           { it.Own = false }
func unlisted(it *Item)          { it.Listed = false }
func empty(it *Item)             { it.Objects = 0 }
func undated(it *Item)           { it.When = time.Time{} }
func used(it *Item)              { it.UsedBy = "Restore r" }
func is(state State) func(*Item) { return func(it *Item) { it.State = state } }

func stored(items ...Item) Storage { return Storage{Items: items, Listed: today} }

func reasons(r Result) string {
	var lines []string
	for _, d := range r.Decisions {
		line := d.Name
		if d.Delete {
			line += " -"
		}
		for _, reason := range d.Reasons {
			line += " " + string(reason)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

func TestKeep(t *testing.T) {
	const week = 7 * day
	for _, tt := range []struct {
		name   string
		policy Policy
		items  []Item
		want   string
	}{
		{"nothing", Policy{Last: 1}, nil, ""},
		{"no rule", Policy{}, []Item{item("a", 0), item("b", day)}, "a NewestComplete NoRule, b NoRule"},
		{"last", Policy{Last: 2}, []Item{item("a", 0), item("b", day), item("c", 2*day)}, "a NewestComplete Last, b Last, c - Expired"},
		{"the newest, though none of the rules has it", Policy{Daily: 1}, []Item{item("a", 400*day)}, "a NewestComplete Daily"},
		{"within, from the newest", Policy{Within: day}, []Item{item("a", 30*day), item("b", 31*day), item("c", 31*day+time.Second)}, "a NewestComplete Within, b Within, c - Expired"},
		{"daily: the newest of each, of days that have one", Policy{Daily: 2},
			[]Item{item("a", 0), item("b", time.Hour), item("c", 3*day), item("h", 3*day+time.Hour), item("e", 4*day)},
			"a NewestComplete Daily, b - Expired, c Daily, h - Expired, e - Expired"},
		{"weekly, from Monday", Policy{Weekly: 2}, []Item{item("mon", 0), item("sun", day), item("sat", 2*day), item("before", 8*day)},
			"mon NewestComplete Weekly, sun Weekly, sat - Expired, before - Expired"},
		{"monthly", Policy{Monthly: 2}, []Item{item("a", 0), item("b", week), item("c", 5*week), item("h", 9*week)},
			"a NewestComplete Monthly, b - Expired, c Monthly, h - Expired"},
		{"rules add up", Policy{Last: 1, Daily: 2, Weekly: 2, Monthly: 2}, []Item{item("a", 0), item("b", day), item("c", 2*day), item("h", 35*day)},
			"a NewestComplete Last Daily Weekly Monthly, b Daily Weekly, c - Expired, h Monthly"},
		{"the newest that was verified", Policy{Last: 1}, []Item{item("a", 0), item("b", day, verified), item("c", 2*day, verified)},
			"a NewestComplete Last, b NewestVerified, c - Expired"},
		{"pinned", Policy{Last: 1}, []Item{item("a", 0), item("b", day, pinned)}, "a NewestComplete Last, b Pinned"},
		{"in use", Policy{Last: 1}, []Item{item("a", 0), item("b", day, used)}, "a NewestComplete Last, b InUse"},
		{"another's neither goes nor counts", Policy{Last: 1}, []Item{item("x", 0, foreign), item("a", day), item("y", 2*day, foreign)},
			"x Foreign, a NewestComplete Last, y Foreign"},
		{"empty ones do not count", Policy{Last: 1, Incomplete: week}, []Item{item("a", 0, empty), item("b", day)}, "a Young, b NewestComplete Last"},
		{"partial ones do not count", Policy{Last: 1, Incomplete: week}, []Item{item("a", 0, is(Incomplete)), item("b", day), item("c", 2*day)},
			"a Young, b NewestComplete Last, c - Expired"},
		{"those of the future do not count", Policy{Last: 1}, []Item{item("a", -2*day), item("b", day), item("c", 2*day)},
			"a Undated, b NewestComplete Last, c - Expired"},
		{"a clock that is ahead a little", Policy{Last: 1}, []Item{item("a", -time.Minute), item("b", day)}, "a NewestComplete Last, b - Expired"},
		{"undated", Policy{Last: 1, Incomplete: week}, []Item{item("a", 0), item("b", 0, undated), item("c", 0, undated, is(Incomplete))},
			"a NewestComplete Last, c Undated, b Undated"},
		{"one that the storage lacks does not count", Policy{Last: 2}, []Item{item("a", 0), item("b", day, unlisted), item("c", 2*day), item("h", 3*day)},
			"a NewestComplete Last, b Missing, c Last, h - Expired"},
		{"missing", Policy{Last: 1}, []Item{item("a", 0, is(Missing)), item("b", day)}, "a Missing, b NewestComplete Last"},
		{"incomplete, old", Policy{Last: 1, Incomplete: week}, []Item{item("a", 0), item("b", 8*day, is(Incomplete)), item("c", 6*day, is(Incomplete)), item("h", 9*day, empty)},
			"a NewestComplete Last, c Young, b - Abandoned, h - Abandoned"},
		{"incomplete, no complete one is newer", Policy{Last: 1, Incomplete: week}, []Item{item("a", 8*day, is(Incomplete)), item("b", 9*day)}, "a Only, b NewestComplete Last"},
		{"incomplete, nothing else", Policy{Last: 1, Incomplete: week}, []Item{item("a", 80*day, is(Incomplete))}, "a Only"},
		{"incomplete, no rule", Policy{Last: 1}, []Item{item("a", 0), item("b", 80*day, is(Incomplete))}, "a NewestComplete Last, b NoRule"},
		{"incomplete, pinned", Policy{Last: 1, Incomplete: week}, []Item{item("a", 0), item("b", 80*day, is(Incomplete), pinned)}, "a NewestComplete Last, b Pinned"},
		{"a name that another begins with", Policy{Last: 1}, []Item{item("b10", 0), item("b1", day), item("b2", 2*day)}, "b10 NewestComplete Last, b1 Beginning, b2 - Expired"},
		{"one that is to go, too", Policy{Last: 1}, []Item{item("a", 0), item("b10", day), item("b1", 2*day)}, "a NewestComplete Last, b10 - Expired, b1 Beginning"},
		{"another's name", Policy{Last: 1}, []Item{item("a", 0), item("b1", 2*day), item("b1x", 3*day, foreign, is(Missing), unlisted)}, "a NewestComplete Last, b1 Beginning, b1x Missing Foreign"},
		{"twice", Policy{Last: 1}, []Item{item("a", 0), item("b", day), item("b", 2*day)}, "a NewestComplete Last, b Beginning, b Beginning"},
		{"Medusa's own folder", Policy{Last: 1}, []Item{item("a", 0), item("da", day), item("", 2*day)}, "a NewestComplete Last, da Beginning,  Beginning"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Keep(stored(tt.items...), tt.policy, today)
			if got := reasons(r); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if r.Held != "" {
				t.Errorf("held: %s", r.Waits)
			}
		})
	}
}

func TestMessages(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	p := Policy{Last: 3, Daily: 7, Within: 36 * time.Hour, Incomplete: 7 * day, Zone: zone}
	var items []Item
	for i := range 10 {
		items = append(items, item(fmt.Sprint("n-", 10-i), time.Duration(i)*day))
	}
	items = append(items, item("p", 8*day, is(Incomplete)))
	items[9].When = items[9].When.Add(-time.Hour)
	items[9].Name = "old"
	items[0].Name, items[0].Verified = "new", true
	said := map[string]string{}
	for _, d := range Keep(stored(items...), p, today).Decisions {
		said[d.Name] = d.Message
	}
	for name, want := range map[string]string{
		"new": "kept: the newest complete one; the newest one that was restored on trial; number 1 of the last 3; not older than 36h before the newest; the last of the day 2026-11-30",
		"n-6": "kept: the last of the day 2026-11-26",
		"old": "deleted: of 2026-11-21 04:00 CET, and not among the last 3, the last of 7 days, those of 36h",
		"p":   "deleted: not complete, of 2026-11-22 05:00 CET, more than 7d ago, and a newer one is complete",
	} {
		if said[name] != want {
			t.Errorf("%s: %s\nwant %s", name, said[name], want)
		}
	}
}

func TestHeld(t *testing.T) {
	rows := func(more ...Item) []Item {
		return append([]Item{item("a", 0), item("b", day), item("c", 2*day)}, more...)
	}
	for _, tt := range []struct {
		name    string
		storage Storage
		held    Hold
		says    string
	}{
		{"not", stored(rows()...), "", ""},
		{"failed", Storage{Items: rows(), Listed: today, Failed: "403 Forbidden"}, ListFailed, "cannot be listed: 403 Forbidden"},
		{"never listed", Storage{Items: rows()}, ListOld, "not listed in the last 15m"},
		{"listed long ago", Storage{Items: rows(), Listed: today.Add(-16 * time.Minute)}, ListOld, "15m"},
		{"listed in the future", Storage{Items: rows(), Listed: today.Add(2 * time.Hour)}, ListOld, "15m"},
		{"empty", stored(item("a", 0, unlisted), item("b", day, unlisted)), ListEmpty, "shows none of the 2 complete backups"},
		{"empty, of one", stored(item("a", 0, unlisted)), ListEmpty, "none of the one complete backup"},
		{"lacks the newest", stored(item("a", 0, unlisted), item("b", day), item("c", 2*day), item("d", 3*day)), ListShort, "does not show backup a, the newest"},
		{"lacks most", stored(item("a", 0), item("b", day, unlisted), item("c", 2*day, unlisted)), ListShort, "only 1 of the 3"},
		{"lacks half", stored(item("a", 0), item("b", day, unlisted)), "", ""},
		{"an active one", stored(rows(item("d", 0, is(Active), unlisted))...), BackupActive, "backup d of the cluster is not over"},
		{"active ones of others", stored(rows(item("d", 0, is(Active), foreign), item("e", 0, is(Active)), item("f", 0, is(Active)), item("g", 0, is(Active)))...), BackupActive, "backup g, f, e and 1 more"},
		{"a deletion", stored(rows(item("d", 9*day, is(Deleting)))...), DeletionRuns, "backup d is being deleted"},
		{"an unsafe name", stored(rows(item("database-1", 9*day, foreign))...), NameUnsafe, "backup database-1 would lose its files"},
		{"an unsafe name, gone", stored(rows(item("database-1", 9*day, is(Missing)))...), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Keep(tt.storage, Policy{Last: 1}, today)
			if r.Held != tt.held || !strings.Contains(r.Waits, tt.says) {
				t.Errorf("held %q: %s", r.Held, r.Waits)
			}
			if r.Held != "" && r.Deletes() != nil {
				t.Errorf("deletes %v", r.Deletes())
			}
		})
	}
	if r := Keep(stored(rows()...), Policy{Last: 1}, today); len(r.Deletes()) != 2 || r.Deletes()[0].Name != "c" {
		t.Errorf("the oldest is to go first: %v", r.Deletes())
	}
}

func TestSafeName(t *testing.T) {
	var unsafe []string
	for _, name := range []string{"", "d", "da", "dat", "data", "data-1", "database-20261130-030000", "date", "d1", "b1", "nightly-20261130-030000"} {
		if !SafeName(name) {
			unsafe = append(unsafe, name)
		}
	}
	if want := []string{"", "d", "da", "dat", "data", "data-1", "database-20261130-030000"}; !slices.Equal(unsafe, want) {
		t.Error(unsafe)
	}
}
