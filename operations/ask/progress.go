package ask

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Progress shows how far a Restore is: on a terminal in lines that are drawn anew,
// one a pod; elsewhere in one line a change.
type Progress struct {
	Out io.Writer
	// Size gives a terminal's columns and rows; nil where it is none.
	Size func() (columns, rows int)
	Now  func() time.Time

	drawn int               // lines that are on the terminal
	said  map[string]string // the last of each line, elsewhere
}

// Show shows the Restore as it is.
func (p *Progress) Show(r *api.Restore) {
	if p.Size == nil {
		p.tell(r)
		return
	}
	columns, rows := p.Size()
	p.draw(Lines(r, columns, rows, p.Now()))
}

// Note says something above the bars, which are drawn anew below it.
func (p *Progress) Note(text string) {
	p.clear()
	fmt.Fprintln(p.Out, clean(text))
}

// clear takes the bars away: up to the first of them, and all below it erased.
func (p *Progress) clear() {
	if p.drawn > 0 {
		fmt.Fprintf(p.Out, "\x1b[%dA\r\x1b[J", p.drawn)
		p.drawn = 0
	}
}

func (p *Progress) draw(lines []string) {
	var text strings.Builder
	if p.drawn > 0 {
		fmt.Fprintf(&text, "\x1b[%dA\r", p.drawn)
	}
	for _, line := range lines {
		text.WriteString(line + "\x1b[K\n") // and what the line had before is erased
	}
	text.WriteString("\x1b[J")
	p.drawn = len(lines)
	_, _ = io.WriteString(p.Out, text.String()) // a terminal that is gone has nobody to tell
}

// tell writes what has changed since the last call.
func (p *Progress) tell(r *api.Restore) {
	if p.said == nil {
		p.said = map[string]string{}
	}
	say := func(key, value, line string) {
		if p.said[key] != value {
			p.said[key] = value
			fmt.Fprintf(p.Out, "%s %s\n", p.Now().UTC().Format("15:04:05"), line)
		}
	}
	if r.Status.Phase == "" {
		return
	}
	head := string(r.Status.Phase)
	if r.Status.Message != "" {
		head += ": " + clean(r.Status.Message)
	}
	say("", head, head)
	for i := range r.Status.Pods {
		pod := &r.Status.Pods[i]
		line := pod.Name + ": " + strings.ToLower(string(pod.Phase))
		key := line
		if pod.Phase == api.PodRestoring {
			percent := percentOf(pod)
			key += fmt.Sprint(percent / 10) // a line each tenth
			line += " " + amount(pod, percent)
		}
		if pod.Failures > 0 {
			line += fmt.Sprintf(", failed %s", times(pod.Failures))
		}
		if pod.Message != "" {
			line += ": " + clean(pod.Message)
		}
		say(pod.Name, key+fmt.Sprint(pod.Failures)+pod.Message, line)
	}
}

func times(n int32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// percentOf is how far a pod is; 100 only where it is done.
func percentOf(pod *api.PodRestore) int {
	switch {
	case pod.Phase == api.PodRestored || pod.Phase == api.PodJoining:
		return 100
	case pod.BytesTotal <= 0:
		return 0
	}
	// As a float: bytes times a hundred pass the integers at 92 PB.
	return min(max(int(float64(pod.Bytes)/float64(pod.BytesTotal)*100), 0), 99)
}

func amount(pod *api.PodRestore, percent int) string {
	if pod.BytesTotal <= 0 {
		if pod.Bytes == 0 {
			return ""
		}
		return size(pod.Bytes)
	}
	if !midway(pod) { // done, or not begun
		return size(pod.BytesTotal)
	}
	return fmt.Sprintf("%d%% (%s of %s)", percent, size(pod.Bytes), size(pod.BytesTotal))
}

// rank has the pods that something happens to first, where not all have room.
func rank(phase api.PodPhase) int {
	order := []api.PodPhase{api.PodRestoring, api.PodJoining, api.PodStopping, api.PodWaiting, api.PodPlanned, api.PodRestored}
	if at := slices.Index(order, phase); at >= 0 {
		return at
	}
	return len(order) // what ended otherwise, or a newer controller's
}

// midway tells whether what a pod's figures say is a part of the whole: while it
// restores, and where it ended in the middle.
func midway(pod *api.PodRestore) bool {
	switch pod.Phase {
	case api.PodRestoring:
		return true
	case api.PodPlanned, api.PodStopping, api.PodWaiting, api.PodJoining, api.PodRestored:
		return false
	}
	return pod.Started != nil
}

// Lines are a terminal's: the Restore, and a bar for each pod, none wider than the
// terminal and no more than it has rows.
func Lines(r *api.Restore, columns, rows int, now time.Time) []string {
	if columns <= 0 {
		columns = 80
	}
	if rows <= 0 {
		rows = 24
	}
	lines := []string{headline(r, now)}
	if message := clean(r.Status.Message); message != "" && r.Status.Phase.Final() {
		lines = append(lines, wrap(message, columns-1, max(rows/4, 1))...) // it is the last that is seen
	} else if message != "" {
		lines = append(lines, message)
	}
	shown := slices.Clone(r.Status.Pods)
	slices.SortStableFunc(shown, func(a, b api.PodRestore) int { return Compare(a.Name, b.Name) })
	room := max(rows-1-len(lines), 0) // the cursor has a row of its own
	left := ""
	if len(shown) > room {
		slices.SortStableFunc(shown, func(a, b api.PodRestore) int { return rank(a.Phase) - rank(b.Phase) })
		fit := max(room-1, 0)
		if room > 0 {
			left = "… and " + counted(shown[fit:])
		}
		shown = shown[:fit]
	}
	name := 0
	for i := range shown {
		name = max(name, len(shown[i].Name))
	}
	name, width := widths(name, columns)
	for i := range shown {
		lines = append(lines, bar(&shown[i], name, width, columns, now))
	}
	if left != "" {
		lines = append(lines, left)
	}
	for i := range lines {
		lines[i] = cut(lines[i], columns-1) // a full line would wrap on some terminals
	}
	return lines
}

func headline(r *api.Restore, now time.Time) string {
	phase := string(r.Status.Phase)
	if phase == "" {
		phase = "not seen by a controller yet"
	}
	line := fmt.Sprintf("Restore %s: %s", r.Name, phase)
	if of := progressIn(r); of.Pods != "" {
		line += ", pods " + of.Pods
		if of.Data != "" {
			line += ", data " + of.Data
		}
	}
	if t := took(r.Status.Started, r.Status.Finished, now); t != "" {
		line += ", " + t
	}
	return line
}

// counted says how many pods are in which phase.
func counted(list []api.PodRestore) string {
	byPhase := map[api.PodPhase]int{}
	for i := range list {
		byPhase[list[i].Phase]++
	}
	var parts []string
	for phase, n := range byPhase {
		parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(string(phase))))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%d more: %s", len(list), strings.Join(parts, ", "))
}
