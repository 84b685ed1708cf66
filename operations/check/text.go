package check

import (
	"fmt"
	"io"
	"strings"
)

// subjectsLimit is how many subjects of one finding are written out. -o json has
// all of them.
const subjectsLimit = 20

// words are the statuses in a column of their own width. What is broken stands
// out without colour, too.
var words = map[Status]string{OK: "ok", Info: "info", Warn: "warn", Skip: "skip", Fail: "FAIL"}

// colours are ANSI escape codes: green, none, yellow, magenta, red.
var colours = map[Status]string{OK: "32", Warn: "33", Skip: "35", Fail: "31;1"}

// Text writes the report for people: a line for each finding, under the headings
// of the groups, and what settles it beneath. Findings that differ in their
// subject only are one line.
func (r *Report) Text(w io.Writer, colour bool) error {
	var b strings.Builder
	b.WriteString(r.headline())
	width := 0
	for _, item := range r.Items {
		width = max(width, len(item.ID))
	}
	group := Group("")
	for _, item := range r.Items {
		for _, line := range fold(r.Findings, item.ID) {
			if line.Message == notInstalled { // the headline says so
				continue
			}
			if item.Group != group {
				group = item.Group
				fmt.Fprintf(&b, "\n%s\n", group)
			}
			status := fmt.Sprintf("%-4s", words[line.Status])
			if code := colours[line.Status]; colour && code != "" {
				status = "\x1b[" + code + "m" + status + "\x1b[0m"
			}
			text := fmt.Sprintf("  %s  %-*s  %s", status, width, item.ID, line.sentence())
			fmt.Fprintf(&b, "%s\n", strings.TrimRight(text, " "))
			if line.Remedy != "" {
				fmt.Fprintf(&b, "        → %s\n", line.Remedy)
			}
		}
	}
	fmt.Fprintf(&b, "\n%s\n", r.conclusion())
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func (r *Report) headline() string {
	where := fmt.Sprintf("Kubernetes %s at %s", r.Cluster.Version, r.Cluster.Where)
	if r.Namespace != "" {
		where += ", namespace " + r.Namespace
	}
	switch r.Installed {
	case "no":
		return fmt.Sprintf("Preflight: Stategraft is not installed yet; this is what an installation needs.\n%s\n", where)
	case "unknown":
		return fmt.Sprintf("Doctor: whether Stategraft is installed cannot be told; this is as if it were.\n%s\n", where)
	}
	return fmt.Sprintf("Doctor: Stategraft is installed in namespace %s.\n%s\n", r.OwnNamespace, where)
}

func (r *Report) conclusion() string {
	var parts []string
	for _, part := range []struct {
		status Status
		noun   string
	}{{Fail, "fault"}, {Warn, "warning"}} {
		if n := r.Summary[part.status]; n > 0 {
			parts = append(parts, counted(n, part.noun, ""))
		}
	}
	if n := r.Summary[Skip]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d not looked at", n))
	}
	if len(parts) == 0 {
		if r.Mode == Preflight {
			return "Nothing stands in the way."
		}
		return "All is well."
	}
	return strings.Join(parts, ", ") + "; docs/check.md explains each item."
}

// line is findings that differ in their subject only.
type line struct {
	Finding
	subjects []string
}

// fold gives the lines of an item, in the order of their first findings.
func fold(findings []Finding, item string) []*line {
	var lines []*line
	same := map[Finding]*line{}
	for _, f := range findings {
		if f.Item != item {
			continue
		}
		key := f
		key.Subject = ""
		found, ok := same[key]
		if !ok {
			found = &line{Finding: f}
			same[key] = found
			lines = append(lines, found)
		}
		if f.Subject != "" {
			found.subjects = append(found.subjects, f.Subject)
		}
	}
	return lines
}

func (l *line) sentence() string {
	subjects := l.subjects
	if len(subjects) == 0 {
		return l.Message
	}
	text := strings.Join(subjects[:min(len(subjects), subjectsLimit)], ", ")
	if more := len(subjects) - subjectsLimit; more > 0 {
		text += fmt.Sprintf(" and %d more (-o json has all)", more)
	}
	if l.Message == "" {
		return text
	}
	return text + ": " + l.Message
}
