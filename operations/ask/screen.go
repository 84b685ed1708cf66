package ask

import (
	"fmt"
	"slices"
	"strings"
)

// Screen is the size of a terminal.
type Screen struct{ Columns, Rows int }

// OrUsual is the usual size where a terminal does not tell its own.
func (s Screen) OrUsual() Screen {
	if s.Columns <= 0 {
		s.Columns = 80
	}
	if s.Rows <= 0 {
		s.Rows = 24
	}
	return s
}

// Head is a headline with a message below it: in full where it is the last that is
// seen.
func (s Screen) Head(headline, message string, last bool) []string {
	lines := []string{headline}
	if message = Clean(message); message != "" && last {
		return append(lines, Wrap(message, s.Columns-1, max(s.Rows/4, 1))...)
	} else if message != "" {
		lines = append(lines, message)
	}
	return lines
}

// Bars is how a pod is shown in a line.
type Bars[T any] struct {
	Name    func(*T) string
	Rank    func(*T) int                         // the lower is shown, where not all have room
	Bar     func(pod *T, name, width int) string // with so many columns for the name, and for the bar
	Counted func([]T) string                     // those that have no line
}

// Fill has the head, and below it a line for each pod by name, as far as there is room.
func Fill[T any](s Screen, head []string, all []T, bars Bars[T]) []string {
	lines, shown := head, slices.Clone(all)
	slices.SortStableFunc(shown, func(a, b T) int { return Compare(bars.Name(&a), bars.Name(&b)) })
	room := max(s.Rows-1-len(lines), 0) // the cursor has a row of its own
	left := ""
	if len(shown) > room {
		slices.SortStableFunc(shown, func(a, b T) int { return bars.Rank(&a) - bars.Rank(&b) })
		fit := max(room-1, 0)
		if room > 0 {
			left = "… and " + bars.Counted(shown[fit:])
		}
		shown = shown[:fit]
	}
	name := 0
	for i := range shown {
		name = max(name, len(bars.Name(&shown[i])))
	}
	name, width := widths(name, s.Columns)
	for i := range shown {
		lines = append(lines, bars.Bar(&shown[i], name, width))
	}
	if left != "" {
		lines = append(lines, left)
	}
	for i := range lines {
		lines[i] = Cut(lines[i], s.Columns-1) // a full line would wrap on some terminals
	}
	return lines
}

// Counted says how many pods are in which phase.
func Counted(phases []string) string {
	byPhase := map[string]int{}
	for _, phase := range phases {
		byPhase[phase]++
	}
	var parts []string
	for phase, n := range byPhase {
		parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(phase)))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%d more: %s", len(phases), strings.Join(parts, ", "))
}
