package backup

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

// Show writes one Backup in full: what it is of, how far it is, what the storage has
// of it and whether that was restored on trial, and what to do next.
func Show(w io.Writer, b *api.Backup, now time.Time) error {
	if err := ask.Table(w, facts(b, now)); err != nil {
		return err
	}
	if len(b.Status.Pods) > 0 {
		if err := ask.Section(w, "Pods:", podRows(b, now)); err != nil {
			return err
		}
	}
	if v := b.Status.Verified; v != nil {
		if err := showVerified(w, v, now); err != nil {
			return err
		}
	}
	if len(b.Status.Conditions) > 0 {
		rows := [][]string{{"TYPE", "STATUS", "REASON", "AGE", "MESSAGE"}}
		for _, c := range b.Status.Conditions {
			rows = append(rows, []string{c.Type, string(c.Status), ask.OrNone(c.Reason), ask.Age(&c.LastTransitionTime, now), ask.Clean(c.Message)})
		}
		if err := ask.Section(w, "Conditions:", ask.Trimmed(rows)); err != nil {
			return err
		}
	}
	next := Next(b, now)
	if len(next) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nWhat to do next:\n  %s\n", strings.Join(next, "\n  "))
	return err
}

// podRows are the pods, without the columns in which none has a thing.
func podRows(b *api.Backup, now time.Time) [][]string {
	rows := [][]string{{"POD", "PHASE", "NODE", "DATACENTER", "RACK", "TOKENS", "OBJECTS", "BYTES", "TABLES", "TOOK", "TRIES", "VERIFIED", "MESSAGE"}}
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	retried := slices.ContainsFunc(b.Status.Pods, func(p api.PodBackup) bool { return p.Tries > 1 })
	for _, pod := range sorted(b.Status.Pods) {
		bytes, tries := "", ""
		if pod.Bytes > 0 {
			bytes = ask.Size(pod.Bytes)
		}
		if retried && pod.Tries > 0 {
			tries = fmt.Sprint(pod.Tries)
		}
		rows = append(rows, []string{ask.Clean(pod.Name), ask.OrNone(string(pod.Phase)), ask.Clean(pod.Node), ask.Clean(pod.Datacenter), ask.Clean(pod.Rack),
			number(int64(pod.Tokens)), number(pod.Objects), bytes, number(int64(pod.Tables)), lasted(&pod, now), tries,
			verifiedNode(b.Status.Verified, pod.StorageNode()), ask.Clean(pod.Message)})
	}
	return filled(rows)
}

// filled leaves out the columns that are empty in all rows, and has <none> where one is
// empty in some; the last one stays as it is.
func filled(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for column := range rows[0] {
		used := false
		for _, row := range rows[1:] {
			used = used || row[column] != ""
		}
		if !used {
			continue
		}
		for i, row := range rows {
			value := row[column]
			if value == "" && column < len(row)-1 {
				value = ask.None
			}
			out[i] = append(out[i], value)
		}
	}
	return out
}

// verifiedNode is what the restore on trial came to for a node; empty where it was not
// restored.
func verifiedNode(v *api.Verification, node string) string {
	if v == nil {
		return ""
	}
	for _, d := range v.Differences {
		if d.Node == node {
			return "differs"
		}
	}
	switch {
	case !slices.Contains(v.Nodes, node):
		return ""
	case len(v.Differences) > 0: // of others
		return "tried"
	}
	return strings.ToLower(string(v.Result))
}

// showVerified writes of the newest restore on trial.
func showVerified(w io.Writer, v *api.Verification, now time.Time) error {
	rows := [][]string{{"Result:", ask.OrNone(string(v.Result))}}
	add := func(key, value string) {
		if value != "" {
			rows = append(rows, []string{key + ":", value})
		}
	}
	add("Message", ask.Clean(v.Message))
	add("Nodes", ask.Clean(strings.Join(v.Nodes, ", ")))
	if v.Tables > 0 || v.SSTables > 0 || v.Rows > 0 {
		add("Read", fmt.Sprintf("%s in %s, %s", ask.Plural(int(v.SSTables), "SSTable"), ask.Plural(int(v.Tables), "table"), ask.Plural(int(v.Rows), "row")))
	}
	if !v.Started.IsZero() {
		add("Started", ask.Moment(v.Started, now))
	}
	if !v.Finished.IsZero() {
		add("Finished", ask.Moment(v.Finished, now))
		add("Took", ask.Took(v.Started, v.Finished, now))
	}
	if err := ask.Section(w, "Restored on trial:", rows); err != nil {
		return err
	}
	if len(v.Differences) == 0 {
		return nil
	}
	differ := [][]string{{"NODE", "TABLE", "ROWS THEN", "ROWS RESTORED"}}
	for _, d := range v.Differences {
		differ = append(differ, []string{ask.OrNone(d.Node), ask.Clean(d.Table), fmt.Sprint(d.Want), fmt.Sprint(d.Have)})
	}
	return ask.Section(w, "Tables that did not hold what they held:", differ)
}
