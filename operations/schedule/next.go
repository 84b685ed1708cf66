package schedule

import "time"

// The search for runs goes along the stretches of time in which the zone keeps its
// distance from UTC. Within one, what clocks show is reckoned as if it were UTC ("wall"
// below), where days have 24 hours and nothing is skipped.
//
// Where a stretch ends is looked for here, and not asked of Time.ZoneBounds: on the
// last day of a leap year, from 2038 on, that tells of an end that has passed, as of Go 1.26.

// stride is how far the search for a change of clocks goes at a time. No zone has
// changed twice in a day.
const stride = 24 * time.Hour

// Next is the first run after a time.
//
// A run that clocks skip, as they go forward, happens when they do; runs that this
// brings to the same instant are one. A run that clocks show twice, as they go
// back, happens the first time. An expression with every hour keeps to the time
// that passes instead: it neither has a run more nor waits an hour.
func (c *Cron) Next(after time.Time) time.Time {
	at := after.In(c.zone).Truncate(time.Minute).Add(time.Minute)
	change, changed := c.change(at.Add(-stride), at)
	if changed && change.Equal(at) && c.skipped(change) {
		return at
	}
	for {
		wall := wallOf(at)
		if changed {
			if seen := c.seen(change); wall.Before(seen) {
				wall = seen
			}
		}
		run := at.Add(c.nextWall(wall).Sub(wallOf(at)))
		if change, changed = c.change(at, run); !changed {
			return run
		}
		if c.skipped(change) {
			return change
		}
		at = change
	}
}

// change is the first minute after from, and not after to, at which clocks differ
// otherwise from UTC than at from. Both are full minutes.
func (c *Cron) change(from, to time.Time) (time.Time, bool) {
	offset := c.offset(from)
	for from.Before(to) {
		next := earliest(from.Add(stride), to)
		if c.offset(next) == offset {
			from = next
			continue
		}
		for next.Sub(from) > time.Minute {
			middle := from.Add(next.Sub(from) / 2).Truncate(time.Minute)
			if c.offset(middle) == offset {
				from = middle
			} else {
				next = middle
			}
		}
		return next, true
	}
	return time.Time{}, false
}

// offset is by how much clocks are ahead of UTC.
func (c *Cron) offset(t time.Time) time.Duration {
	_, seconds := t.In(c.zone).Zone()
	return time.Duration(seconds) * time.Second
}

// wallOf is what clocks show, as if it were UTC.
func wallOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
}

// everyHour tells whether the expression is about minutes of each hour.
func (c *Cron) everyHour() bool { return c.hour == 1<<24-1 }

// seen is until when clocks show, from a change on, what they have shown before.
func (c *Cron) seen(change time.Time) time.Time {
	if c.everyHour() {
		return time.Time{}
	}
	return c.unchanged(change)
}

// skipped tells whether a run falls into what clocks do not show at a change.
func (c *Cron) skipped(change time.Time) bool {
	return !c.everyHour() && c.nextWall(c.unchanged(change)).Before(wallOf(change.In(c.zone)))
}

// unchanged is what clocks would show at a change, had they not been put.
func (c *Cron) unchanged(change time.Time) time.Time {
	return wallOf(change.UTC().Add(c.offset(change.Add(-time.Minute))))
}

// nextWall is the first wall time at or after one, in full minutes, that the
// expression has.
func (c *Cron) nextWall(at time.Time) time.Time {
	for {
		year, month, day := at.Date()
		if !c.month.has(int(month)) {
			at = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		}
		if !c.onDay(at) {
			at = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
			continue
		}
		hour, ok := c.hour.from(at.Hour())
		if !ok {
			at = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
			continue
		}
		from := 0
		if hour == at.Hour() {
			from = at.Minute()
		}
		minute, ok := c.minute.from(from)
		if !ok {
			at = time.Date(year, month, day, hour+1, 0, 0, 0, time.UTC)
			continue
		}
		return time.Date(year, month, day, hour, minute, 0, 0, time.UTC)
	}
}

func (c *Cron) onDay(at time.Time) bool {
	dom, dow := c.dom.has(at.Day()), c.dow.has(int(at.Weekday()))
	if c.either {
		return dom || dow
	}
	return dom && dow
}

// Latest is the last run after since that is not after until, and whether there is
// one. However long ago since is, it takes as many looks as there are halvings of
// the time between: a year of missed minutes is no loop of half a million.
func (c *Cron) Latest(since, until time.Time) (time.Time, bool) {
	latest := c.Next(since)
	if latest.After(until) {
		return time.Time{}, false
	}
	// Before high there is no later run than the one that follows low.
	low, high := latest, until
	for high.Sub(low) > time.Minute {
		middle := low.Add(high.Sub(low) / 2)
		if run := c.Next(middle); run.After(until) {
			high = middle
		} else {
			low, latest = run, run
		}
	}
	if run := c.Next(low); !run.After(until) {
		latest = run
	}
	return latest, true
}

// Count is how many runs there are after since and not after until, counted up to
// a limit.
func (c *Cron) Count(since, until time.Time, limit int) (n int) {
	for run := c.Next(since); n < limit && !run.After(until); run = c.Next(run) {
		n++
	}
	return n
}
