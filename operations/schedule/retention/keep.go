package retention

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// clockSlack is how far clocks may be apart: that of who made a backup and ours.
	clockSlack = time.Hour
	day        = 24 * time.Hour
)

// Keep says which backups are kept and which are deleted. It follows from its
// arguments alone, in whatever order the items are; a dry run differs in nothing but
// in that Deletes is empty.
func Keep(s Storage, p Policy, now time.Time) Result {
	if p.Zone == nil {
		p.Zone = time.UTC
	}
	items := slices.Clone(s.Items)
	slices.SortFunc(items, newestFirst)
	k := keeper{policy: p, now: now, items: items}
	k.count()

	r := Result{DryRun: p.DryRun}
	r.Held, r.Waits = held(s, items, now)
	for i := range items {
		r.Decisions = append(r.Decisions, k.decide(i))
	}
	return r
}

func newestFirst(a, b Item) int {
	if order := cmp.Or(b.When.Compare(a.When), cmp.Compare(b.Name, a.Name)); order != 0 {
		return order
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) // two of one name are an error, but one that has an order
}

// keeper has the rules in the making.
type keeper struct {
	policy Policy
	now    time.Time
	items  []Item // the newest first
	// rules are the reasons of rules, by item.
	rules map[int][]why
	// newest is the newest item that counts as complete, -1 without one.
	newest int
}

// why is a reason with what it is said with.
type why struct {
	reason Reason
	text   string
}

// counts tells whether an item is what the rules speak of: a complete backup of this
// schedule that is there. What is not, were it counted, would push out one that is.
func (k *keeper) counts(it Item) bool {
	return it.Own && whole(it) && it.Listed && k.dated(it)
}

// whole tells whether a backup is what it should be. One without objects is not.
func whole(it Item) bool { return it.State == Complete && it.Objects > 0 }

func (k *keeper) dated(it Item) bool {
	return !it.When.IsZero() && !it.When.After(k.now.Add(clockSlack))
}

// count has each rule choose.
func (k *keeper) count() {
	k.rules, k.newest = map[int][]why{}, -1
	verified := false
	last := 0
	days, weeks, months := newBucket(k.policy.Daily), newBucket(k.policy.Weekly), newBucket(k.policy.Monthly)
	for i, it := range k.items {
		if !k.counts(it) {
			continue
		}
		if k.newest < 0 {
			k.newest = i
			k.add(i, KeptNewest, "the newest complete one")
		}
		if it.Verified && !verified {
			verified = true
			k.add(i, KeptVerified, "the newest one that was restored on trial")
		}
		if last++; last <= k.policy.Last {
			k.add(i, KeptLast, fmt.Sprintf("number %d of the last %d", last, k.policy.Last))
		}
		if age := k.items[k.newest].When.Sub(it.When); k.policy.Within > 0 && age <= k.policy.Within {
			k.add(i, KeptWithin, "not older than "+period(k.policy.Within)+" before the newest")
		}
		when := it.When.In(k.policy.Zone)
		if name := when.Format("2006-01-02"); days.takes(name) {
			k.add(i, KeptDaily, "the last of the day "+name)
		}
		if name := week(when); weeks.takes(name) {
			k.add(i, KeptWeekly, "the last of the week "+name)
		}
		if name := when.Format("2006-01"); months.takes(name) {
			k.add(i, KeptMonthly, "the last of the month "+name)
		}
		if p := k.policy; p.Last+p.Daily+p.Weekly+p.Monthly == 0 && p.Within == 0 {
			k.add(i, KeptNoRule, "no rule says what is to go")
		}
	}
}

func (k *keeper) add(i int, reason Reason, text string) {
	k.rules[i] = append(k.rules[i], why{reason, text})
}

// bucket takes the newest of each of so many days, weeks or months. Days need not
// follow each other: where clocks go back over midnight, one comes twice.
type bucket struct {
	limit int
	taken map[string]bool
}

func newBucket(limit int) bucket { return bucket{limit, map[string]bool{}} }

func (b bucket) takes(name string) bool {
	if len(b.taken) >= b.limit || b.taken[name] {
		return false
	}
	b.taken[name] = true
	return true
}

func week(t time.Time) string {
	year, number := t.ISOWeek()
	return fmt.Sprintf("%d-W%02d", year, number)
}

// decide is for one item, the surest reason first.
func (k *keeper) decide(i int) Decision {
	it := k.items[i]
	var kept []why
	keep := func(reason Reason, format string, args ...any) {
		kept = append(kept, why{reason, fmt.Sprintf(format, args...)})
	}
	switch {
	case it.State == Active:
		keep(KeptActive, "it is not over")
	case it.State == Deleting:
		keep(KeptGoing, "it is being deleted")
	case it.State == Missing, whole(it) && !it.Listed:
		keep(KeptMissing, "the storage does not have it")
	}
	if it.Pinned {
		keep(KeptPinned, "pinned")
	}
	if it.UsedBy != "" {
		keep(KeptInUse, "in use by %s", it.UsedBy)
	}
	if !it.Own {
		keep(KeptForeign, "not of this schedule")
	}
	if it.When.IsZero() {
		keep(KeptUndated, "nothing tells when it was made")
	} else if !k.dated(it) {
		keep(KeptUndated, "it is of the future, %s: is a clock wrong?", k.say(it.When))
	}
	kept = append(kept, k.rules[i]...)
	d := Decision{Item: it, Delete: true, Reasons: []Reason{Expired}}
	if len(kept) == 0 && !whole(it) {
		d.Reasons[0] = Abandoned
		kept = k.incomplete(i)
	}
	if len(kept) == 0 {
		if other := takenAlong(k.items, i); other != "" {
			keep(KeptBeginning, "%s", other)
		}
	}
	if len(kept) > 0 {
		d.Delete, d.Reasons = false, nil
		for _, w := range kept {
			d.Reasons = append(d.Reasons, w.reason)
		}
	}
	d.Message = k.message(it, kept)
	return d
}

// incomplete is why a backup that is not complete is kept.
func (k *keeper) incomplete(i int) []why {
	it := k.items[i]
	switch limit := k.policy.Incomplete; {
	case limit <= 0:
		return []why{{KeptNoRule, "not complete, and no rule says when it is to go"}}
	case k.now.Sub(it.When) <= limit:
		return []why{{KeptYoung, "not complete, and deleted after " + k.say(it.When.Add(limit))}}
	case k.newest < 0 || !k.items[k.newest].When.After(it.When):
		return []why{{KeptOnly, "not complete, but there is no complete one that is newer"}}
	}
	return nil
}
