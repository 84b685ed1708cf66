package backup

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/test/golden"
)

// TestShow compares the pages with golden files.
func TestShow(t *testing.T) {
	for what, b := range all() {
		var out bytes.Buffer
		if err := Show(&out, b, noon); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "testdata/show-"+what+".txt", out.Bytes())
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s writes to the terminal", what)
		}
	}
}

// TestList compares the tables with a golden file; the order is that of the data.
func TestList(t *testing.T) {
	var out bytes.Buffer
	for _, wide := range []bool{false, true} {
		list := []api.Backup{}
		for _, what := range slices.Sorted(maps.Keys(all())) {
			list = append(list, *all()[what])
		}
		if err := WriteList(&out, list, wide, wide, noon); err != nil {
			t.Fatal(err)
		}
		out.WriteString("\n")
	}
	golden.Compare(t, "testdata/list.txt", out.Bytes())
	c := store(nil, all()["complete"], all()["found"], all()["new"])
	list, err := List(t.Context(), c, "db")
	if err != nil || len(list.Items) != 3 || list.Items[0].Name != "nightly-20261129-030000" || list.Items[2].Name != "new" {
		t.Errorf("%v, %+v", err, list)
	}
	if _, err := List(t.Context(), c, "gone"); err == nil || err.Error() != `there is no namespace "gone"` {
		t.Error(err)
	}
}

// TestPlan compares what a dry run says with a golden file.
func TestPlan(t *testing.T) {
	var out bytes.Buffer
	failed := all()["planned"]
	failed.Status.Phase, failed.Status.Message, failed.Status.Pods = api.BackupFailed, "there is no pod\x1b c-1", nil
	whole := all()["planned"]
	whole.Status.Pods, whole.Spec.Parallel, whole.Spec.Type = whole.Status.Pods[1:], 1, api.BackupFull
	waits, refuses := all()["planned"], all()["planned"]
	waits.Status.Message, waits.Status.Pods = "it would wait: namespace db is not labelled", nil
	refuses.Status.Message, refuses.Status.Pods = "it would be refused: pods of several clusters", refuses.Status.Pods[1:]
	for _, b := range []*api.Backup{all()["planned"], failed, whole, waits, refuses} {
		if err := WritePlan(&out, b); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "whole: %v\n\n", Whole(b, nil))
	}
	golden.Compare(t, "testdata/plan.txt", out.Bytes())
}

// TestLines compares what a terminal shows with a golden file. No line is wider than
// the terminal, and there are no more than it has rows.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	for _, size := range [][2]int{{100, 24}, {80, 24}, {60, 24}, {40, 24}, {80, 6}, {80, 2}, {0, 0}} {
		lines := Lines(all()["running"], size[0], size[1], noon)
		fmt.Fprintf(&out, "-- %d columns, %d rows\n%s\n", size[0], size[1], strings.Join(lines, "\n"))
		if columns, rows := max(size[0], 1), max(size[1], 1); size[0] > 0 {
			if len(lines) > rows {
				t.Errorf("%d lines on %d rows", len(lines), rows)
			}
			for _, line := range lines {
				if utf8.RuneCountInString(line) >= columns {
					t.Errorf("%d columns: %q", columns, line)
				}
			}
		}
	}
	for _, what := range []string{"partial", "new"} {
		fmt.Fprintf(&out, "-- %s\n%s\n", what, strings.Join(Lines(all()[what], 100, 24, noon), "\n"))
	}
	golden.Compare(t, "testdata/lines.txt", out.Bytes())
}

// The bar of a pod that runs goes to and fro, and stays within its frame.
func TestGaugeMoves(t *testing.T) {
	pod := &api.PodBackup{Phase: api.PodBackupRunning}
	last, turns := "", 0
	for second := range 100 {
		now := gauge(pod, 10, noon.Add(time.Duration(second)*time.Second))
		if len(now) != 12 || strings.Count(now, "<=>") != 1 {
			t.Fatalf("%q", now)
		}
		if now == last {
			t.Errorf("it stands still: %q", now)
		}
		if strings.Index(now, "<") == 1 {
			turns++
		}
		last = now
	}
	if turns < 5 {
		t.Errorf("it comes back %d times", turns)
	}
}

// Where there is no terminal each change is a line, and what stays is none.
func TestTells(t *testing.T) {
	var out bytes.Buffer
	progress := Progress{&ask.Progress{Out: &out, Now: func() time.Time { return noon }}}
	b := all()["running"]
	for range 3 {
		progress.Show(&api.Backup{})
		progress.Show(b)
	}
	b.Status.Pods[2] = api.PodBackup{Name: "cassandra-1", Phase: api.PodBackupComplete, Objects: 1, Bytes: 5}
	progress.Show(b)
	b.Status.Phase, b.Status.Message = api.BackupPartial, "cassandra-4 has gone"
	progress.Show(b)
	golden.Compare(t, "testdata/tells.txt", out.Bytes())
}

// Of what was found the workload is told from the names of its nodes, where these are
// as a StatefulSet gives them.
func TestTarget(t *testing.T) {
	for want, names := range map[string][]string{
		"statefulset/c":                   {"c-0", "c-1", "c-2"},
		"pod/c-0 pod/c-2":                 {"c-2", "c-0"},
		"pod/a-0 pod/b-1":                 {"a-0", "b-1"},
		"pod/node":                        {"node"},
		"-l LABELS-OF-THE-PODS":           {},
		"statefulset/many-racks":          {"many-racks-0", "many-racks-1", "many-racks-2", "many-racks-3", "many-racks-4", "many-racks-5", "many-racks-10", "many-racks-6", "many-racks-7", "many-racks-8", "many-racks-9"},
		"pod/a pod/b pod/c pod/d pod/e-1": {"a", "b", "c", "d", "e-1"},
	} {
		b := &api.Backup{Spec: api.BackupSpec{Existing: &api.ExistingBackup{Name: "x"}}}
		for _, name := range names {
			b.Status.Pods = append(b.Status.Pods, api.PodBackup{Name: name})
		}
		if got := target(b, nil); got != want {
			t.Errorf("%q: %s, want %s", names, got, want)
		}
	}
}
