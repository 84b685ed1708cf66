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
	p.Draw(Lines(r, columns, rows, p.Now()))
}

// Note says something above the bars, which are drawn anew below it.
func (p *Progress) Note(text string) {
	p.clear()
	fmt.Fprintln(p.Out, Clean(text))
}

// clear takes the bars away: up to the first of them, and all below it erased.
func (p *Progress) clear() {
	if p.drawn > 0 {
		fmt.Fprintf(p.Out, "\x1b[%dA\r\x1b[J", p.drawn)
		p.drawn = 0
	}
}

// Draw puts lines on a terminal, in place of those that it drew before.
func (p *Progress) Draw(lines []string) {
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

// Say writes a line with the time, where the value of its key is not what it was when
// the last one was written.
func (p *Progress) Say(key, value, line string) {
	if p.said == nil {
		p.said = map[string]string{}
	}
	if p.said[key] != value {
		p.said[key] = value
		fmt.Fprintf(p.Out, "%s %s\n", p.Now().UTC().Format("15:04:05"), line)
	}
}

// tell writes what has changed since the last call.
func (p *Progress) tell(r *api.Restore) {
	if r.Status.Phase == "" {
		return
	}
	head := string(r.Status.Phase)
	if r.Status.Message != "" {
		head += ": " + Clean(r.Status.Message)
	}
	p.Say("", head, head)
	for i := range r.Status.Pods {
		pod := &r.Status.Pods[i]
		line := pod.Name + ": " + strings.ToLower(string(pod.Phase))
		key := line
		if pod.Phase == api.PodRestoring || pod.Phase == api.PodReplaying {
			percent := percentOf(pod)
			key += fmt.Sprint(percent / 10) // a line each tenth
			line += " " + amount(pod, percent)
		}
		if pod.Failures > 0 {
			line += fmt.Sprintf(", failed %s", times(pod.Failures))
		}
		if pod.Message != "" {
			line += ": " + Clean(pod.Message)
		}
		p.Say(pod.Name, key+fmt.Sprint(pod.Failures)+pod.Message, line)
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
	case pod.Phase == api.PodRestored || pod.Phase == api.PodJoining || pod.Phase == api.PodReplayed:
		return 100
	case pod.Phase == api.PodReplaying:
		if pod.KeysTotal <= 0 {
			return 0
		}
		return min(max(int(float64(pod.Keys)/float64(pod.KeysTotal)*100), 0), 99)
	case pod.BytesTotal <= 0:
		return 0
	}
	// As a float: bytes times a hundred pass the integers at 92 PB.
	return min(max(int(float64(pod.Bytes)/float64(pod.BytesTotal)*100), 0), 99)
}

func amount(pod *api.PodRestore, percent int) string {
	if pod.KeysTotal > 0 && pod.Phase == api.PodReplaying {
		return fmt.Sprintf("%d%% (%d of %d keys)", percent, pod.Keys, pod.KeysTotal)
	}
	if pod.BytesTotal <= 0 {
		if pod.Bytes == 0 {
			return ""
		}
		return Size(pod.Bytes)
	}
	if !midway(pod) { // done, or not begun
		return Size(pod.BytesTotal)
	}
	return fmt.Sprintf("%d%% (%s of %s)", percent, Size(pod.Bytes), Size(pod.BytesTotal))
}

// rank has the pods that something happens to first, where not all have room.
func rank(phase api.PodPhase) int {
	order := []api.PodPhase{api.PodRestoring, api.PodReplaying, api.PodJoining, api.PodReplayed, api.PodStopping, api.PodWaiting, api.PodPlanned, api.PodRestored}
	if at := slices.Index(order, phase); at >= 0 {
		return at
	}
	return len(order) // what ended otherwise, or a newer controller's
}

// midway tells whether what a pod's figures say is a part of the whole: while it
// restores, and where it ended in the middle.
func midway(pod *api.PodRestore) bool {
	switch pod.Phase {
	case api.PodRestoring, api.PodReplaying:
		return true
	case api.PodPlanned, api.PodStopping, api.PodWaiting, api.PodJoining, api.PodReplayed, api.PodRestored:
		return false
	}
	return pod.Started != nil
}

// Lines are a terminal's: the Restore, and a bar for each pod, none wider than the
// terminal and no more than it has rows.
func Lines(r *api.Restore, columns, rows int, now time.Time) []string {
	screen := Screen{Columns: columns, Rows: rows}.OrUsual()
	head := screen.Head(headline(r, now), r.Status.Message, r.Status.Phase.Final())
	return Fill(screen, head, r.Status.Pods, Bars[api.PodRestore]{
		Name:    func(p *api.PodRestore) string { return p.Name },
		Rank:    func(p *api.PodRestore) int { return rank(p.Phase) },
		Bar:     func(p *api.PodRestore, name, width int) string { return bar(p, name, width, screen.Columns, now) },
		Counted: counted,
	})
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
	if t := Took(r.Status.Started, r.Status.Finished, now); t != "" {
		line += ", " + t
	}
	return line
}

func counted(list []api.PodRestore) string {
	phases := make([]string, len(list))
	for i := range list {
		phases[i] = string(list[i].Phase)
	}
	return Counted(phases)
}
