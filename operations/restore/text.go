package restore

import (
	"fmt"
	"strings"
	"time"

	"github.com/stategraft/stategraft/workload"
)

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

// sizeText writes a number of bytes for people.
func sizeText(bytes int64) string {
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		value /= 1024
		if value < 1024 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// timeText writes when something was. How long ago that is would be wrong as soon as
// it is written down.
func timeText(at time.Time) string {
	if at.IsZero() {
		return "at a time that is not known"
	}
	return at.UTC().Format(time.RFC3339)
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
