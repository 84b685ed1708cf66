package ask

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// bar is a pod's line:
//
//	cassandra-0  restoring  [========>            ]  43% (1.1 GiB of 2.6 GiB)  2m10s
//
// What stands beside the bar is said in fewer words where it has no room.
func bar(pod *api.PodRestore, name, width, columns int, now time.Time) string {
	percent := percentOf(pod)
	line := Pad(Middle(pod.Name, name), name) + fmt.Sprintf("  %-9s", strings.ToLower(string(pod.Phase)))
	if width > 0 {
		line += "  " + gauge(percent, width)
	}
	lasted, failed, fails, short := "", "", "", amount(pod, percent)
	if t := Took(pod.Started, pod.Finished, now); t != "" {
		lasted = "  " + t
	}
	if pod.Failures > 0 {
		failed, fails = "  failed "+times(pod.Failures), fmt.Sprintf("  %d failed", pod.Failures)
	}
	if midway(pod) && pod.BytesTotal > 0 {
		short = fmt.Sprintf("%d%%", percent)
	}
	room := columns - 1 - utf8.RuneCountInString(line) - 2
	end := ""
	for _, end = range []string{amount(pod, percent) + lasted + failed, short + lasted + failed, short + lasted + fails, short + fails} {
		if utf8.RuneCountInString(end) <= room {
			break
		}
	}
	if end != "" {
		line += "  " + end
	}
	if pod.Message != "" {
		line += "  " + Clean(pod.Message)
	}
	return line
}

// widths are those of the names and of the bars; no bars where there is no room for
// ten cells. Down to sixty columns there is: the names give way.
func widths(name, columns int) (names, bars int) {
	const (
		least, most = 10, 40
		phase       = 11 // with the blanks before it
		frame       = 4  // of the bar, with its blanks
		beside      = 40 // the amount and the time in full
		scarce      = 19 // and in short
		narrowest   = 60
	)
	names = min(name, max(columns/3, 12))
	if bars = min(columns-1-names-phase-frame-beside, most); bars >= least {
		return names, bars
	}
	if columns < narrowest {
		return names, 0
	}
	names = min(name, columns-1-phase-frame-scarce-least)
	return names, least
}

// Middle shortens a name and leaves its end, by which pods are told apart.
func Middle(name string, columns int) string {
	const end = 6
	runes := []rune(name)
	if len(runes) <= columns || columns < end+4 {
		return Cut(name, columns)
	}
	return string(runes[:columns-end-1]) + "…" + string(runes[len(runes)-end:])
}

// Pad fills a text up to so many columns.
func Pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(columns-utf8.RuneCountInString(text), 0))
}

// Wrap breaks a text at blanks, into so many lines at most.
func Wrap(text string, columns, most int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns && len(lines) < most-1 {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

func gauge(percent, width int) string {
	full := percent * width / 100
	inner := strings.Repeat("=", full)
	if percent > 0 && full < width {
		inner += ">"
	}
	return fmt.Sprintf("[%-*s]", width, inner)
}

// Cut shortens a line to so many columns. What is shown here has one a rune, but
// for names of backups that their makers wrote otherwise.
func Cut(line string, columns int) string {
	if columns <= 0 {
		return ""
	}
	if utf8.RuneCountInString(line) <= columns {
		return line
	}
	return string([]rune(line)[:columns-1]) + "…"
}
