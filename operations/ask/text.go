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

// none stands for a value that there is not, in tables.
const none = "<none>"

// clean keeps what a cluster holds from writing to the terminal.
func clean(text string) string { return workload.Printable(strings.Join(strings.Fields(text), " ")) }

// size gives bytes in the units that people compare volumes by.
func size(bytes int64) string {
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

func orNone(text string) string {
	if text == "" {
		return none
	}
	return clean(text)
}

// age is a time as kubectl's columns have it.
func age(at *metav1.Time, now time.Time) string {
	if at.IsZero() {
		return none
	}
	return duration.HumanDuration(max(now.Sub(at.Time), 0))
}

// moment is a time in full, with how long ago it was.
func moment(at *metav1.Time, now time.Time) string {
	if at.IsZero() {
		return none
	}
	return at.UTC().Format(time.RFC3339) + " (" + age(at, now) + " ago)"
}

// took is how long something has lasted, to its end or until now; empty where it
// has not begun.
func took(from, to *metav1.Time, now time.Time) string {
	if from.IsZero() {
		return ""
	}
	if !to.IsZero() {
		now = to.Time
	}
	return duration.HumanDuration(max(now.Sub(from.Time), 0))
}

// table writes rows in columns, as kubectl does.
func table(w io.Writer, rows [][]string) error {
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
