package backup

import (
	"fmt"
	"strings"

	"github.com/stategraft/stategraft/workload"
)

// How long the texts of a status may be: of the whole, and of a pod. A thousand pods
// with theirs are less than an object may hold.
const (
	messageLimit = 1024
	podLimit     = 300
)

// line makes one line of a text.
func line(text string) string { return workload.Printable(strings.Join(strings.Fields(text), " ")) }

// someOf names some of many.
func someOf(names []string) string {
	const most = 5
	shown := make([]string, 0, most)
	for _, name := range names[:min(most, len(names))] {
		shown = append(shown, workload.Short(name))
	}
	if more := len(names) - most; more > 0 {
		return strings.Join(shown, ", ") + fmt.Sprintf(" and %d more", more)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(shown, ", ")
}

// sizeText writes a number of bytes for a column.
func sizeText(bytes int64) string {
	if bytes < 1024 {
		return fmt.Sprintf("%dB", bytes)
	}
	value, unit := float64(bytes), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		value /= 1024
		if value < 1024 {
			break
		}
	}
	return fmt.Sprintf("%.1f%s", value, unit)
}

func prefixText(prefix string) string {
	if prefix == "" {
		return "the bucket's root"
	}
	return "prefix " + workload.Short(prefix)
}

// counted is "1 pod" or "3 pods".
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
