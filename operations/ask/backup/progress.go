package backup

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

// Progress shows how far a Backup is: on a terminal in lines that are drawn anew, one
// a pod; elsewhere in one line a change.
type Progress struct {
	*ask.Progress
}

// Show shows the Backup as it is.
func (p Progress) Show(b *api.Backup) {
	if p.Size == nil {
		p.tell(b)
		return
	}
	columns, rows := p.Size()
	p.Draw(Lines(b, columns, rows, p.Now()))
}

// tell writes what has changed since the last call.
func (p Progress) tell(b *api.Backup) {
	if b.Status.Phase == "" {
		return
	}
	head := string(b.Status.Phase)
	if b.Status.Message != "" {
		head += ": " + ask.Clean(b.Status.Message)
	}
	p.Say("", head, head)
	for i := range b.Status.Pods {
		pod := &b.Status.Pods[i]
		line := pod.Name + ": " + strings.ToLower(string(pod.Phase))
		if pod.Phase == api.PodBackupComplete {
			line += ", " + amount(pod)
		}
		if pod.Tries > 1 {
			line += ", " + try(pod)
		}
		if pod.Message != "" {
			line += ": " + ask.Clean(pod.Message)
		}
		p.Say(pod.Name, line, line)
	}
}

// Lines are a terminal's: the Backup, and a bar for each pod, none wider than the
// terminal and no more than it has rows.
func Lines(b *api.Backup, columns, rows int, now time.Time) []string {
	screen := ask.Screen{Columns: columns, Rows: rows}.OrUsual()
	head := screen.Head(headline(b, now), b.Status.Message, b.Status.Phase.Final())
	return ask.Fill(screen, head, b.Status.Pods, ask.Bars[api.PodBackup]{
		Name: func(p *api.PodBackup) string { return p.Name },
		Rank: func(p *api.PodBackup) int { return rank(p.Phase) },
		Bar:  func(p *api.PodBackup, name, width int) string { return bar(p, name, width, screen.Columns, now) },
		Counted: func(list []api.PodBackup) string {
			phases := make([]string, len(list))
			for i := range list {
				phases[i] = string(list[i].Phase)
			}
			return ask.Counted(phases)
		},
	})
}

func headline(b *api.Backup, now time.Time) string {
	phase := phaseOf(b)
	if phase == "" {
		phase = "not seen by a controller yet"
	}
	line := fmt.Sprintf("Backup %s: %s", b.Name, phase)
	if of := b.Status.Progress.Pods; of != "" {
		line += ", pods " + of
	}
	if b.Status.Bytes > 0 {
		line += ", " + ask.Size(b.Status.Bytes)
	}
	if t := ask.Took(b.Status.Started, b.Status.Finished, now); t != "" {
		line += ", " + t
	}
	return line
}

// rank has the pods that something happens to first, where not all have room.
func rank(phase api.PodBackupPhase) int {
	order := []api.PodBackupPhase{api.PodBackupRunning, api.PodBackupChecking, api.PodBackupFailed, api.PodBackupGone, api.PodBackupWaiting, api.PodBackupComplete}
	if at := slices.Index(order, phase); at >= 0 {
		return at
	}
	return len(order) // a newer controller's
}

// bar is a pod's line. How much of it is done a sidecar does not tell: while one runs
// its bar only moves, and what it comes to stands beside it once the storage has it.
//
//	cassandra-0  running    [    <=>              ]  2m10s, try 2
//	cassandra-1  complete   [=====================]  1.1 GiB in 412 objects  4m2s
//
// What stands beside the bar is said in fewer words where it has no room.
func bar(pod *api.PodBackup, name, width, columns int, now time.Time) string {
	line := ask.Pad(ask.Middle(pod.Name, name), name) + fmt.Sprintf("  %-9s", strings.ToLower(string(pod.Phase)))
	if width > 0 {
		line += "  " + gauge(pod, width, now)
	}
	lasted := lasted(pod, now)
	room := columns - 1 - utf8.RuneCountInString(line) - 2
	short := ""
	if pod.Bytes > 0 {
		short = ask.Size(pod.Bytes)
	}
	end := ""
	for _, parts := range [][]string{{amount(pod), lasted, try(pod)}, {short, lasted, try(pod)}, {short, try(pod)}} {
		end = strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "  ")
		if utf8.RuneCountInString(end) <= room {
			break
		}
	}
	if end != "" {
		line += "  " + end
	}
	if pod.Message != "" {
		line += "  " + ask.Clean(pod.Message)
	}
	return line
}

// gauge is full where the storage has the pod's part, and moves while one is made.
func gauge(pod *api.PodBackup, width int, now time.Time) string {
	inner := ""
	switch pod.Phase {
	case api.PodBackupComplete:
		inner = strings.Repeat("=", width)
	case api.PodBackupChecking:
		inner = strings.Repeat("=", width-1) + ">"
	case api.PodBackupRunning:
		const moving = "<=>"
		way := width - len(moving)
		at := int(now.Unix() % int64(2*way))
		if at > way { // and back
			at = 2*way - at
		}
		inner = strings.Repeat(" ", at) + moving
	case api.PodBackupWaiting, api.PodBackupFailed, api.PodBackupGone:
	}
	return fmt.Sprintf("[%-*s]", width, inner)
}

// lasted is how long it took, or takes; empty where it ended nobody knows when.
func lasted(pod *api.PodBackup, now time.Time) string {
	if pod.Finished.IsZero() && pod.Phase != api.PodBackupRunning && pod.Phase != api.PodBackupChecking {
		return ""
	}
	return ask.Took(pod.Started, pod.Finished, now)
}

func amount(pod *api.PodBackup) string {
	if pod.Objects == 0 {
		return ""
	}
	return ask.Size(pod.Bytes) + " in " + ask.Plural(int(pod.Objects), "object")
}

// try says that it is not the first.
func try(pod *api.PodBackup) string {
	if pod.Tries < 2 {
		return ""
	}
	return fmt.Sprintf("try %d", pod.Tries)
}
