package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// Clocks go forward and back. All in the zone's own time, with its distance to UTC.
func TestClockChanges(t *testing.T) {
	for _, tt := range []struct {
		name, text, zone, from string
		runs                   []string
	}{
		{"skipped: when clocks go forward", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z",
			[]string{"2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"}},
		{"skipped, asked the minute before", "30 2 * * *", "Europe/Berlin", "2026-03-29T01:59+01:00",
			[]string{"2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"}},
		{"skipped, asked at the change", "30 2 * * *", "Europe/Berlin", "2026-03-29T03:00+02:00",
			[]string{"2026-03-30T02:30+02:00"}},
		{"many skipped are one", "*/10 2 * * *", "Europe/Berlin", "2026-03-29T00:00+01:00",
			[]string{"2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"}},
		{"skipped, and one at the change, are one", "0 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00+01:00",
			[]string{"2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"}},
		{"every hour: as time passes", "30 * * * *", "Europe/Berlin", "2026-03-29T00:45+01:00",
			[]string{"2026-03-29T01:30+01:00", "2026-03-29T03:30+02:00"}},
		{"twice: the first", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z",
			[]string{"2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"}},
		{"twice, asked in between", "30 2 * * *", "Europe/Berlin", "2026-10-25T02:15+01:00",
			[]string{"2026-10-26T02:30+01:00"}},
		{"twice, every hour: both", "30 * * * *", "Europe/Berlin", "2026-10-25T01:45+02:00",
			[]string{"2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00", "2026-10-25T03:30+01:00"}},
		{"twice, every minute of the hour: the first sixty", "59 2 * * *", "Europe/Berlin", "2026-10-25T02:58+02:00",
			[]string{"2026-10-25T02:59+02:00", "2026-10-26T02:59+01:00"}},
		{"a day that begins at one", "0 0 * * *", "Africa/Cairo", "2025-04-24T12:00Z",
			[]string{"2025-04-25T01:00+03:00", "2025-04-26T00:00+03:00"}},
		{"midnight twice", "0 0 * * *", "America/Sao_Paulo", "2018-02-17T12:00Z",
			[]string{"2018-02-18T00:00-03:00", "2018-02-19T00:00-03:00"}},
		{"half an hour", "10 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z",
			[]string{"2026-10-04T02:30+11:00", "2026-10-05T02:10+11:00"}},
		{"a day that is not there", "0 3 * * *", "Pacific/Apia", "2011-12-29T00:00-10:00",
			[]string{"2011-12-29T03:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T03:00+14:00"}},
		{"the first of the month, skipped", "0 0 1 * *", "America/Asuncion", "2017-09-15T00:00Z",
			[]string{"2017-10-01T01:00-03:00", "2017-11-01T00:00-03:00"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, at := must(t, tt.text, tt.zone), stamp(t, tt.from)
			for _, want := range tt.runs {
				at = c.Next(at)
				if got := at.Format("2006-01-02T15:04Z07:00"); got != want {
					t.Fatalf("%s: %s, want %s", tt.text, got, want)
				}
			}
		})
	}
}

// matches is the expression asked of one minute on the clock.
func (c *Cron) matches(wall time.Time) bool {
	return c.month.has(int(wall.Month())) && c.onDay(wall) && c.hour.has(wall.Hour()) && c.minute.has(wall.Minute())
}

// plainNext is Next as its comment has it, one minute after another.
func plainNext(c *Cron, after time.Time) time.Time {
	shown := map[time.Time]bool{}
	begin := after.Truncate(time.Minute).Add(-4 * time.Hour)
	wall := wallOf(begin.In(c.zone))
	for at := begin.Add(time.Minute); ; at = at.Add(time.Minute) {
		before := wall
		wall = wallOf(at.In(c.zone))
		run := c.matches(wall) && (c.everyHour() || !shown[wall])
		shown[wall] = true
		for skipped := before.Add(time.Minute); skipped.Before(wall) && !c.everyHour(); skipped = skipped.Add(time.Minute) {
			run = run || c.matches(skipped)
		}
		if run && at.After(after) {
			return at
		}
	}
}

// around are places and days on which clocks change, or do not.
var around = map[string][]string{
	"Europe/Berlin":       {"2026-03-29", "2026-10-25"},
	"America/New_York":    {"2026-03-08", "2026-11-01"},
	"Australia/Lord_Howe": {"2026-04-05", "2026-10-04"},
	"America/Sao_Paulo":   {"2018-02-18", "2018-11-04"},
	"America/St_Johns":    {"2010-03-14", "2010-11-07"}, // a minute past midnight
	"Antarctica/Troll":    {"2026-03-29", "2026-10-25"}, // two hours
	"Africa/Cairo":        {"2025-04-25", "2025-10-31"},
	"Pacific/Apia":        {"2011-12-30"},
	"Asia/Kathmandu":      {"2026-06-01"},
	// The last day of a leap year, where Go is mistaken about the zone's bounds.
	"Pacific/Auckland":  {"2040-12-31"},
	"America/Vancouver": {"2040-12-31"},
	"":                  {"2026-02-28", "2026-12-31"},
}

// text is an expression with a few runs a day, so that looking for them a minute at
// a time ends.
func randomText(r *rand.Rand) string {
	one := func(n int) string {
		switch r.IntN(5) {
		case 0:
			return "*"
		case 1:
			return fmt.Sprintf("*/%d", 1+r.IntN(n))
		case 2:
			low := r.IntN(n)
			return fmt.Sprintf("%d-%d", low, low+r.IntN(n-low))
		}
		return fmt.Sprintf("%d,%d", r.IntN(n), r.IntN(n))
	}
	hour := one(24)
	if r.IntN(2) == 0 {
		hour = one(5) // where clocks change
	}
	day := []string{"* * *", "*/2 * *", "* * 0-4", "1,15,28-31 * 6"}[r.IntN(4)]
	return one(60) + " " + hour + " " + day
}

func TestNextIsPlainNext(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 3))
	for zone, days := range around {
		for _, day := range days {
			for range 25 {
				c := must(t, randomText(r), zone)
				at := stamp(t, day+"T00:00Z").Add(time.Duration(r.IntN(72*60)-36*60) * time.Minute).Add(time.Duration(r.IntN(60)) * time.Second)
				for range 3 {
					got, want := c.Next(at), plainNext(c, at)
					if !got.Equal(want) {
						t.Fatalf("%q in %q after %s: %s, want %s", c, zone, at.In(c.zone), got, want.In(c.zone))
					}
					at = got
				}
			}
		}
	}
}

func TestLatestIsTheLastNext(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 4))
	for zone, days := range around {
		for range 40 {
			c := must(t, randomText(r), zone)
			since := stamp(t, days[0]+"T00:00Z").Add(-time.Duration(r.IntN(48*60)) * time.Minute)
			until := since.Add(time.Duration(r.IntN(72*3600)) * time.Second)
			var want time.Time
			n := 0
			for run := c.Next(since); !run.After(until); run = c.Next(run) {
				want = run
				n++
			}
			got, ok := c.Latest(since, until)
			if ok != (n > 0) || !got.Equal(want) {
				t.Fatalf("%q in %q from %s to %s: %s, want %s", c, zone, since, until, got, want)
			}
			if count := c.Count(since, until, 10); count != min(n, 10) {
				t.Fatalf("%q: %d runs, want %d", c, count, n)
			}
		}
	}
}

func TestLatestOfLongAgo(t *testing.T) {
	c, now := must(t, "* * * * *", "Europe/Berlin"), stamp(t, "2026-11-30T10:07Z")
	if got, ok := c.Latest(time.Time{}, now); !ok || !got.Equal(now) {
		t.Fatal(got, ok)
	}
	c = must(t, "0 0 29 2 *", "Europe/Berlin")
	if got, ok := c.Latest(time.Time{}, now); !ok || got.Year() != 2024 {
		t.Fatal(got, ok)
	}
}

// Go's ZoneBounds tells, on these days from 2040 on, of a change in the past.
func TestLastDayOfLeapYears(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "Pacific/Auckland", "America/New_York", "UTC"} {
		for year := 2024; year < 2110; year += 4 {
			c := must(t, "30 2 * * *", zone)
			at := time.Date(year, 12, 28, 2, 30, 0, 0, c.zone)
			for day := 29; day < 35; day++ {
				if want := time.Date(year, 12, day, 2, 30, 0, 0, c.zone); !c.Next(at).Equal(want) {
					t.Fatalf("%s: after %s: %s", zone, at, c.Next(at))
				}
				at = c.Next(at)
			}
			if leap := must(t, "0 0 29 2 *", zone).Next(at); leap.Month() != 2 || leap.Day() != 29 {
				t.Fatal(leap)
			}
		}
	}
}

func BenchmarkNext(b *testing.B) {
	c, at := must(b, "*/5 * * * *", "Europe/Berlin"), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		c.Next(at)
	}
}

func BenchmarkNextLeapDay(b *testing.B) {
	c, at := must(b, "0 0 29 2 *", "Europe/Berlin"), time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		c.Next(at)
	}
}
