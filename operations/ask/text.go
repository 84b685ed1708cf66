package ask

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/stategraft/stategraft/workload"
)

// None stands for a value that there is not, in tables.
const None = "<none>"

// Clean keeps what a cluster holds from writing to the terminal.
func Clean(text string) string { return workload.Printable(strings.Join(strings.Fields(text), " ")) }

// Size gives bytes in the units that people compare volumes by.
func Size(bytes int64) string {
	const units = "KMGTPE"
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes)/1024, 0
	for value >= 1023.95 && unit < len(units)-1 { // which would be printed as 1024.0
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

// OrNone is a text in a table.
func OrNone(text string) string {
	if text == "" {
		return None
	}
	return Clean(text)
}

// Age is a time as kubectl's columns have it.
func Age(at *metav1.Time, now time.Time) string {
	if at.IsZero() {
		return None
	}
	return duration.HumanDuration(max(now.Sub(at.Time), 0))
}

// Moment is a time in full, with how long ago it was.
func Moment(at *metav1.Time, now time.Time) string {
	if at.IsZero() {
		return None
	}
	return at.UTC().Format(time.RFC3339) + " (" + Age(at, now) + " ago)"
}

// Took is how long something has lasted, to its end or until now; empty where it
// has not begun.
func Took(from, to *metav1.Time, now time.Time) string {
	if from.IsZero() {
		return ""
	}
	if !to.IsZero() {
		now = to.Time
	}
	return duration.HumanDuration(max(now.Sub(from.Time), 0))
}

// Table writes rows in columns, as kubectl does.
func Table(w io.Writer, rows [][]string) error {
	var text strings.Builder // which takes everything
	columns := tabwriter.NewWriter(&text, 0, 8, 3, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	_ = columns.Flush()
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return fmt.Errorf("writing a table: %w", err)
		}
	}
	return nil
}
