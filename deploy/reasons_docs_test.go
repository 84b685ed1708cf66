package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reasonsOf are the constants by which each package says why, in conditions and in
// status.retention.held; the expression finds them among others.
var reasonsOf = map[string]string{
	"backup":             `(?m)^(?:const|\t)\s*[rR]eason\w+\s*(?:\w+\s*)?= "(\w+)"`,
	"catalogue":          `(?m)^(?:const|\t)\s*[rR]eason\w+\s*(?:\w+\s*)?= "(\w+)"`,
	"claims":             `(?m)^(?:const|\t)\s*[rR]eason\w+\s*(?:\w+\s*)?= "(\w+)"`,
	"removal":            `(?m)^(?:const|\t)\s*\w+\s+Reason\s+= "(\w+)"`,
	"rpo":                `(?m)^(?:const|\t)\s*[rR]eason\w+\s*(?:\w+\s*)?= "(\w+)"`,
	"schedule":           `(?m)^(?:const|\t)\s*(?:Busy|Cleaning|TooLate)\s+Reason = "(\w+)"`,
	"schedule/retention": `(?m)^(?:const|\t)\s*\w+\s+Hold\s+= "(\w+)"`,
	"scheduler":          `(?m)^(?:const|\t)\s*(?:[rR]eason\w+|hold\w+)\s*(?:[\w.]+\s*)?= "(\w+)"`,
	"verify":             `(?m)^(?:const|\t)\s*[rR]eason\w+\s*(?:\w+\s*)?= "(\w+)"`,
}

// TestBackupReasonsAreDocumented finds each reason in the tables of docs/backup.md, and
// each that is there in the code. The code is read, and not imported.
func TestBackupReasonsAreDocumented(t *testing.T) {
	known := map[string]string{}
	for in, expression := range reasonsOf {
		files, err := filepath.Glob(filepath.Join("..", "operations", in, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files of %s (%v)", in, err)
		}
		found := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(expression).FindAllStringSubmatch(string(text), -1) {
				known[match[1]], found = in, found+1
			}
		}
		if found == 0 {
			t.Errorf("no reasons in operations/%s: are they written otherwise?", in)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "docs", "backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile("`([A-Z][a-z]+[A-Za-z]*)`")
	documented := map[string]bool{}
	for _, heading := range []string{"### Nothing is deleted", "## How old may a backup become", "### Backups", "### Deletion", "### Schedules", "### Verification"} {
		_, part, found := strings.Cut(string(text), "\n"+heading+"\n")
		if part, _, _ = strings.Cut(part, "\n#"); !found {
			t.Fatalf("no section %q", heading)
		}
		for line := range strings.Lines(part) {
			first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
			if !strings.HasPrefix(line, "|") {
				first = line // what is well is told of below the table
			}
			for _, match := range word.FindAllStringSubmatch(first, -1) {
				documented[match[1]] = true
			}
		}
	}
	for reason, in := range known {
		if !documented[reason] {
			t.Errorf("docs/backup.md does not say what %s of operations/%s means", reason, in)
		}
	}
	// Words of the text that are no reasons.
	others := []string{"Accepted", "Completed", "Failed", "OnTime", "Retained", "Deleted", "Verified", "WithinRPO", "BackupBehind", "Stored"}
	for reason := range documented {
		if known[reason] == "" && !slices.Contains(others, reason) {
			t.Errorf("docs/backup.md has %s, which is no reason", reason)
		}
	}
}

// TestBackupEventsAreDocumented does the same with the reasons of events.
func TestBackupEventsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(text), "\n### Events\n")
	if !found {
		t.Fatal("no section on events")
	}
	documented, known := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(part) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, match := range regexp.MustCompile("`([A-Z][A-Za-z]+)`").FindAllStringSubmatch(first, -1) {
			documented[match[1]] = true
		}
	}
	for _, in := range []string{"annotated", "backup", "catalogue", "rpo", "scheduler", "verify"} {
		files, err := filepath.Glob(filepath.Join("..", "operations", in, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(`(?m)^(?:const|\t)\s*event\w+\s*= "(\w+)"`).FindAllStringSubmatch(string(text), -1) {
				known[match[1]] = true
			}
		}
	}
	for event := range known {
		if !documented[event] {
			t.Errorf("docs/backup.md has no event %s", event)
		}
	}
	for event := range documented {
		if !known[event] {
			t.Errorf("docs/backup.md has event %s, which nobody writes", event)
		}
	}
}
