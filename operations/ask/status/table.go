package status

import (
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/rpo"
)

// Write writes the rows as a table, with more columns where wide.
func Write(w io.Writer, list []rpo.Row, wide bool, now time.Time) error {
	head := []string{"NAMESPACE", "POD", "SIDECAR", "LAST BACKUP", "AGE", "SIZE", "NEXT", "VERIFIED"}
	if wide {
		head = append(head, "WORKLOAD", "SCHEDULE", "RPO", "WHY")
	}
	rows := [][]string{head}
	for i := range list {
		r := &list[i]
		row := []string{r.Namespace, r.Pod, sidecar(r), last(r), age(r), size(r), next(r, now), verified(r, now)}
		if wide {
			row = append(row, r.Workload, ask.OrNone(strings.Join(r.Schedules, ",")), limit(r), ask.Clean(r.Why))
		}
		rows = append(rows, row)
	}
	return ask.Table(w, rows)
}

// sidecar is the state of the sidecar, or that it is just being given.
func sidecar(r *rpo.Row) string {
	if r.Sidecar == rpo.SidecarMissing && r.SidecarReason == reasonAdopting {
		return reasonAdopting
	}
	return string(r.Sidecar)
}

func last(r *rpo.Row) string {
	if r.Last == nil {
		return ask.None
	}
	return r.Last.Name
}

// age is that of the last backup, and whether it is too old.
func age(r *rpo.Row) string {
	text := ask.None
	if r.Last != nil {
		text = duration.HumanDuration(r.Age)
	}
	if r.Behind {
		text += " (behind)"
	}
	return text
}

func size(r *rpo.Row) string {
	if r.Bytes == 0 {
		return ask.None
	}
	return ask.Size(r.Bytes)
}

func next(r *rpo.Row, now time.Time) string {
	switch in := r.Next.Sub(now); {
	case r.Next.IsZero():
		return ask.None
	case in <= 0:
		return "due"
	default:
		return "in " + duration.HumanDuration(in)
	}
}

func verified(r *rpo.Row, now time.Time) string {
	result := strings.ToLower(string(r.VerifiedResult))
	if r.Verified == nil {
		return ask.OrNone(result)
	}
	at := metav1.NewTime(*r.Verified)
	return strings.TrimPrefix(result+" "+ask.Age(&at, now)+" ago", " ")
}

func limit(r *rpo.Row) string {
	if r.RPO == 0 {
		return ask.None
	}
	return duration.HumanDuration(r.RPO) + ", by " + ask.Clean(r.RPOFrom)
}

// Summary says how many pods are behind, and why; the first of many.
func Summary(rows []rpo.Row) []string {
	const most = 10
	var lines []string
	behind, others := 0, 0
	for i := range rows {
		r := &rows[i]
		if !r.Behind {
			if r.Sidecar == rpo.SidecarMissing {
				others++
			}
			continue
		}
		if behind++; behind <= most {
			lines = append(lines, fmt.Sprintf("  %s/%s: %s", r.Namespace, r.Pod, ask.Clean(r.Why)))
		}
	}
	if behind > most {
		lines = append(lines, fmt.Sprintf("  and %d more (-o wide)", behind-most))
	}
	if behind > 0 {
		lines = append([]string{fmt.Sprintf("%d of %s behind:", behind, ask.Plural(len(rows), "pod"))}, lines...)
	}
	if others > 0 {
		what := "pod"
		if behind > 0 {
			what = "other pod"
		}
		lines = append(lines, fmt.Sprintf("%s without a sidecar: kubectl stategraft check says why, and what settles it; while they run kubectl stategraft adopt gives it to most", ask.Plural(others, what)))
	}
	return lines
}
