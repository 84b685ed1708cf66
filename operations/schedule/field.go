package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// field is what one of the five may have.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min
}

var allFields = [5]field{
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", max: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// read gives the values of a field, and whether it restricts anything. A step over
// all, */2, restricts: so it is in Kubernetes' CronJobs, which users compare with.
func (f field) read(text string) (values set, restricted bool, err error) {
	restricted = true
	for part := range strings.SplitSeq(text, ",") {
		bits, all, err := f.part(part)
		if err != nil {
			return 0, false, err
		}
		if all {
			restricted = false
		}
		values |= bits
	}
	return values, restricted, nil
}

// part reads one of *, ?, v, v-w, and any of these with /step.
func (f field) part(text string) (values set, all bool, err error) {
	span, stepText, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		if step, err = number(stepText); err != nil || step == 0 {
			return 0, false, fmt.Errorf("%s %q: the step after / has to be a number above 0", f.name, text)
		}
		if size := f.last() - f.min + 1; step > size {
			return 0, false, fmt.Errorf("%s %q: a step of %d is more than the %d there are, and would be taken for them", f.name, text, step, size)
		}
	}
	low, high := f.min, f.max
	switch first, last, ranged := strings.Cut(span, "-"); {
	case span == "*" || span == "?":
		if f.max == 7 {
			high = 6 // not Sunday twice, which would make steps of two meet it
		}
		all = step == 1
	case ranged:
		if low, err = f.value(first); err == nil {
			high, err = f.value(last)
		}
		if err != nil {
			return 0, false, err
		}
		if low > high {
			return 0, false, fmt.Errorf("%s %q goes backwards: write two ranges with a comma, such as %d-%d,%d-%d", f.name, text, low, f.last(), f.min, high)
		}
	default:
		if low, err = f.value(span); err != nil {
			return 0, false, err
		}
		if high = low; stepped {
			high = f.last()
		}
	}
	for v := low; v <= high; v += step {
		values |= 1 << v
	}
	return values, all, nil
}

// last is the last value that is written: 7 is another word for 0.
func (f field) last() int {
	if f.max == 7 {
		return 6
	}
	return f.max
}

func (f field) value(text string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.min + i, nil
	}
	v, err := number(text)
	if err != nil {
		return 0, fmt.Errorf("%s %q is not a number%s, a range such as %d-%d, a list with commas, or * (L, W, # and H are not known)", f.name, text, f.orName(), f.min, f.last())
	}
	if v < f.min || v > f.max {
		return 0, fmt.Errorf("%s %d is not from %d to %d", f.name, v, f.min, f.max)
	}
	return v, nil
}

func (f field) orName() string {
	if f.names == nil {
		return ""
	}
	return ", a name such as " + f.names[1]
}

// number reads what Atoi does, without signs.
func number(text string) (int, error) {
	if strings.ContainsAny(text, "+-_") {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}
