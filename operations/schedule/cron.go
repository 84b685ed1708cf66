package schedule

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// Cron is a cron expression in a time zone. Its zero value is not usable: Parse
// makes one, and what Parse has made has a next run at any time.
//
// The parser is our own, as the one that Kubernetes and most others use
// (robfig/cron/v3) leaves out a run that falls into the hour by which clocks go
// forward, and repeats one in the hour by which they go back: a nightly backup at
// 02:30 would be two days apart in spring. It also answers the zero time to an
// expression that never comes, such as 31 February, and takes a time zone within
// the text, which timeZone would contradict.
type Cron struct {
	text                     string
	minute, hour, dom, month set
	dow                      set
	// Whether days of the month and days of the week are both restricted: then a day
	// that is in either is meant, as cron has always had it.
	either bool
	zone   *time.Location
}

// set has a bit for each value of a field.
type set uint64

func (s set) has(v int) bool { return s&(1<<v) != 0 }

// from is the first value that is v or later.
func (s set) from(v int) (int, bool) {
	rest := s >> v << v
	return bits.TrailingZeros64(uint64(rest)), rest != 0
}

// Words that stand for expressions, as in Kubernetes' CronJobs.
var words = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

// maxText is far above any expression that is meant.
const maxText = 256

// Parse reads a cron expression of five fields, or a word such as @daily, that is
// meant in a time zone of the IANA database; "" is UTC. Its errors say what to
// write instead.
func Parse(text, timeZone string) (*Cron, error) {
	zone, err := Zone(timeZone)
	if err != nil {
		return nil, err
	}
	c := &Cron{text: strings.Join(strings.Fields(text), " "), zone: zone}
	if err := c.read(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Cron) read() error {
	if len(c.text) > maxText {
		return fmt.Errorf("schedule: longer than %d characters", maxText)
	}
	text, err := spelled(c.text)
	if err != nil {
		return err
	}
	fields := strings.Fields(text)
	if len(fields) != len(allFields) {
		return fmt.Errorf("schedule %q has %d fields and needs 5: minute, hour, day of month, month, day of week, such as \"0 3 * * *\"", c.text, len(fields))
	}
	var restricted [len(allFields)]bool
	for i, to := range []*set{&c.minute, &c.hour, &c.dom, &c.month, &c.dow} {
		if *to, restricted[i], err = allFields[i].read(fields[i]); err != nil {
			return fmt.Errorf("schedule %q: %w", c.text, err)
		}
	}
	if c.dow.has(7) { // Sunday is 0 and 7
		c.dow = c.dow&^(1<<7) | 1
	}
	c.either = restricted[2] && restricted[4]
	if !c.either && !c.comes() {
		return fmt.Errorf("schedule %q never comes: none of its months has such a day", c.text)
	}
	return nil
}

// spelled is an expression of fields for a word, and for fields what they are.
func spelled(text string) (string, error) {
	switch {
	case text == "":
		return "", fmt.Errorf("schedule is empty: write a cron expression such as \"0 3 * * *\", every day at 3")
	case strings.HasPrefix(text, "TZ="), strings.HasPrefix(text, "CRON_TZ="):
		return "", fmt.Errorf("schedule %q names a time zone: write it into timeZone", text)
	case strings.HasPrefix(text, "@every"):
		return "", fmt.Errorf("schedule %q counts from an unknown time: write \"0 */6 * * *\" for every six hours, and jitter to keep schedules apart", text)
	case strings.HasPrefix(text, "@"):
		fields, ok := words[strings.ToLower(text)]
		if !ok {
			return "", fmt.Errorf("schedule %q is no known word: write @hourly, @daily, @weekly, @monthly, @yearly or five fields", text)
		}
		return fields, nil
	}
	return text, nil
}

// comes tells whether any month has such a day of the month.
func (c *Cron) comes() bool {
	first, _ := c.dom.from(1)
	for month := range 13 {
		if c.month.has(month) && first <= longest(month) {
			return true
		}
	}
	return false
}

// longest is how many days a month has, of February in leap years.
func longest(month int) int {
	switch month {
	case 2:
		return 29
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// String is the expression as it was written.
func (c *Cron) String() string { return c.text }

// Location is the time zone that the expression is meant in.
func (c *Cron) Location() *time.Location { return c.zone }
