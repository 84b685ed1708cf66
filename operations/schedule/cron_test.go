package schedule

import (
	"strings"
	"testing"
	"time"
)

func must(t testing.TB, text, zone string) *Cron {
	t.Helper()
	c, err := Parse(text, zone)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stamp reads a time such as 2026-11-30T03:00Z or 2026-03-29T03:00+02:00.
func stamp(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02T15:04Z07:00", text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestParse(t *testing.T) {
	monday := stamp(t, "2026-11-30T10:07Z")
	for _, tt := range []struct{ text, next string }{
		{"0 3 * * *", "2026-12-01T03:00Z"},
		{"  0   3 * * *\t", "2026-12-01T03:00Z"},
		{"* * * * *", "2026-11-30T10:08Z"},
		{"*/15 * * * *", "2026-11-30T10:15Z"},
		{"7/15 * * * *", "2026-11-30T10:22Z"},
		{"5-10/2 * * * *", "2026-11-30T10:09Z"},
		{"*/60 * * * *", "2026-11-30T11:00Z"},
		{"0 8,20 * * *", "2026-11-30T20:00Z"},
		{"0 0 * * 7", "2026-12-06T00:00Z"},
		{"0 0 * * 0", "2026-12-06T00:00Z"},
		{"0 0 * * Sun", "2026-12-06T00:00Z"},
		{"0 0 * * 5-7", "2026-12-04T00:00Z"},
		{"0 0 * * */2", "2026-12-01T00:00Z"}, // Sunday, Tuesday, Thursday, Saturday
		{"0 0 1 JAN-mar *", "2027-01-01T00:00Z"},
		{"0 0 29 2 *", "2028-02-29T00:00Z"},
		{"0 0 31 2 1", "2027-02-01T00:00Z"},   // or a Monday
		{"0 0 13 * 5", "2026-12-04T00:00Z"},   // either the 13th or a Friday
		{"0 0 13 * */6", "2026-12-05T00:00Z"}, // a step restricts: or a Saturday or Sunday
		{"0 0 13 * ?", "2026-12-13T00:00Z"},
		{"0 0 ? * 5", "2026-12-04T00:00Z"},
		{"@hourly", "2026-11-30T11:00Z"},
		{"@daily", "2026-12-01T00:00Z"},
		{"@Midnight", "2026-12-01T00:00Z"},
		{"@weekly", "2026-12-06T00:00Z"},
		{"@monthly", "2026-12-01T00:00Z"},
		{"@yearly", "2027-01-01T00:00Z"},
		{"@annually", "2027-01-01T00:00Z"},
	} {
		if got, want := must(t, tt.text, "").Next(monday), stamp(t, tt.next); !got.Equal(want) {
			t.Errorf("%q: next %s, want %s", tt.text, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ text, zone, says string }{
		{"", "", "is empty"},
		{"   ", "", "is empty"},
		{"0 3 * *", "", "has 4 fields and needs 5"},
		{"0 0 3 * * *", "", "has 6 fields"},
		{"60 * * * *", "", "minute 60 is not from 0 to 59"},
		{"* 24 * * *", "", "hour 24 is not from 0 to 23"},
		{"* * 0 * *", "", "day of month 0"},
		{"* * 32 * *", "", "day of month 32"},
		{"* * * 13 *", "", "month 13"},
		{"* * * * 8", "", "day of week 8"},
		{"* * * foo *", "", `month "foo" is not a number, a name such as feb`},
		{"* * L * *", "", "L, W, # and H are not known"},
		{"H 3 * * *", "", "not known"},
		{"-1 * * * *", "", `minute "" is not`},
		{"+1 * * * *", "", `minute "+1"`},
		{"1,,2 * * * *", "", `minute "" is not`},
		{"1- * * * *", "", `minute "" is not`},
		{"1-2-3 * * * *", "", `minute "2-3"`},
		{"*/0 * * * *", "", "above 0"},
		{"*/x * * * *", "", "above 0"},
		{"*/ * * * *", "", "above 0"},
		{"*/2/2 * * * *", "", "above 0"},
		{"*/90 * * * *", "", "a step of 90 is more than the 60"},
		{"* 22-6 * * *", "", "write two ranges with a comma, such as 22-23,0-6"},
		{"* * * * fri-mon", "", "such as 5-6,0-1"},
		{"0 0 31 2 *", "", "never comes"},
		{"0 0 31 4,6,9,11 *", "", "never comes"},
		{"@reboot", "", "no known word"},
		{"@every 6h", "", "0 */6 * * *"},
		{"TZ=Europe/Berlin 0 3 * * *", "", "write it into timeZone"},
		{"CRON_TZ=UTC 0 3 * * *", "", "write it into timeZone"},
		{strings.Repeat("1,", 200) + "1 * * * *", "", "longer than"},
		{"0 3 * * *", "Local", `timeZone "Local" is not known`},
		{"0 3 * * *", "Europe/Berln", "is not known"},
		{"0 3 * * *", "../../etc/passwd", "is not known"},
	} {
		_, err := Parse(tt.text, tt.zone)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q %q: %v, want %q", tt.text, tt.zone, err, tt.says)
		}
	}
}

// Whatever text there is, it is refused or has runs, in order, without end.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"0 3 * * *", "*/5 1-3,7 ? jan-MAR,12 sun,5-7/2", "0 0 29 2 *", "0 0 31 2 *", "@daily", "@every 1h", "TZ=UTC * * * * *", "1,,2 * * * *", "*/99999999999999999999 * * * *", "0 0 29 2 1/3"} {
		f.Add(text, "Europe/Berlin", int64(1774746000))
		f.Add(text, "", int64(0))
	}
	f.Fuzz(func(t *testing.T, text, zone string, unix int64) {
		c, err := Parse(text, zone)
		if err != nil {
			return
		}
		at := time.Unix(unix%(1<<33), 0) // from 1697 to 2242
		again := must(t, c.String(), zone)
		for range 3 {
			next := c.Next(at)
			if !next.After(at) || next.After(at.AddDate(9, 0, 0)) && next.Year() != 1904 && next.Year() != 2104 {
				t.Fatalf("%q: next of %s is %s", text, at, next)
			}
			if !again.Next(at).Equal(next) {
				t.Fatalf("%q is not %q", c, text)
			}
			if last, ok := c.Latest(at, next); !ok || !last.Equal(next) {
				t.Fatalf("%q: latest until %s is %s", text, next, last)
			}
			at = next
		}
	})
}
