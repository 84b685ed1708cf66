package ask

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/golden"
)

// changed is running with changes.
func changed(change func(*api.Restore)) *api.Restore {
	r := running()
	change(r)
	return r
}

func completedRestore() *api.Restore {
	return changed(func(r *api.Restore) {
		r.Name, r.Namespace = "cassandra-20261129-080000", "prod"
		r.CreationTimestamp = *at(-28 * time.Hour)
		s := &r.Status
		s.Phase, s.Pending, s.Message, s.Progress = api.RestoreCompleted, nil, "3 pods are restored", api.RestoreProgress{Pods: "1/1", Data: "100%"}
		s.Started, s.Finished, s.Pods = at(-28*time.Hour), at(-27*time.Hour-15*time.Minute), s.Pods[:1]
		prefix := "prod-cassandra"
		r.Spec.Mode, r.Spec.Source, s.Prefix = api.Remote, &api.RestoreSource{Prefix: &prefix, Nodes: map[string]string{"cassandra-0": "db-10"}}, prefix
	})
}

func failedRestore() *api.Restore {
	return changed(func(r *api.Restore) {
		r.Name, r.Spec.Suspend = "cassandra-20261130-100000", false
		r.Status.Phase, r.Status.Message, r.Status.Finished = api.RestoreFailed, "the deadline of 6h is over", at(-time.Minute)
		r.Status.Pending = []string{"cassandra-2"}
	})
}

// cancelledRestore was given up in the middle: of two pods only the volumes know
// whether the data from before are kept.
func cancelledRestore() *api.Restore {
	return changed(func(r *api.Restore) {
		r.Name, r.Spec.Cancel = "cassandra-20261130-110000", true
		r.Status.Phase, r.Status.Message, r.Status.Finished, r.Status.Pending = api.RestoreCancelled, "cancelled", at(-time.Minute), nil
		r.Status.Pods = r.Status.Pods[1:4]
		for i, text := range []string{"the volume is untouched", "the volume is untouched; what was downloaded is discarded", "DANGER: the data on the volume may be half replaced,\nand the database now starts with them"} {
			r.Status.Pods[i].Message = text
		}
	})
}

// cancelledEarly was given up before a pod was touched; its figures are those that an
// older controller writes of no pods at all.
func cancelledEarly() *api.Restore {
	return changed(func(r *api.Restore) {
		r.Name, r.Spec.Cancel = "cassandra-20261130-113000", true
		s := &r.Status
		s.Phase, s.Message, s.Finished, s.Pending, s.Pods = api.RestoreCancelled, "cancelled before a pod was touched", at(-time.Minute), nil, nil
		s.Progress = api.RestoreProgress{Pods: "0/0", Data: "100%"}
		s.Conditions = s.Conditions[:1]
	})
}

// later restored the pods of completedRestore again, all but one.
func later() []api.Restore {
	r := completedRestore()
	r.Name, r.CreationTimestamp = "again", *at(-20 * time.Hour)
	return []api.Restore{*r}
}

func fresh() *api.Restore {
	return &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "new", CreationTimestamp: *at(-2 * time.Second)},
		Spec: api.RestoreSpec{Undo: "cassandra-20261129-080000", Suspend: true, Pods: api.RestorePods{Names: []string{"db-10", "db-2"}}}}
}

func unseen() *api.Restore {
	r := fresh()
	r.Spec.Suspend, r.CreationTimestamp = false, *at(-time.Minute)
	return r
}

func planned() *api.Restore {
	return changed(func(r *api.Restore) {
		r.Spec.DryRun, r.Spec.Mode, r.Status.Phase = true, api.Remote, api.RestorePlanned
		r.Status.Message = "what was written since 2026-11-30T03:00:00Z is lost"
		r.Status.Pending, r.Status.Progress, r.Status.Started, r.Status.Conditions = nil, api.RestoreProgress{}, nil, nil
		r.Status.Pods = []api.PodRestore{
			{Name: "cassandra-10", Phase: api.PodPlanned, Action: api.ActionEmpty, Message: "the backup has nothing of it"},
			{Name: "cassandra-2", Phase: api.PodPlanned, Action: api.ActionRestore, Node: "cassandra-2", BytesTotal: 3 << 30},
			{Name: "cassandra-3", Phase: api.PodPlanned, Action: api.ActionRestore, Node: "old-3", BytesTotal: 1, Tokens: []string{"1", "2"}},
		}
	})
}

// TestGolden compares what people see with what it was.
func TestGolden(t *testing.T) {
	all := []api.Restore{*running(), *completedRestore(), *failedRestore(), *cancelledEarly(), *fresh()}
	refused := changed(func(r *api.Restore) {
		r.Status = api.RestoreStatus{Phase: api.RestoreFailed, Message: "there is no backup nightli; the newest are nightly-2, nightly-1"}
	})
	files := map[string]func(*bytes.Buffer) error{
		"list.txt":      func(b *bytes.Buffer) error { return WriteList(b, all, false, false, noon) },
		"list-all.txt":  func(b *bytes.Buffer) error { return WriteList(b, all, true, false, noon) },
		"list-wide.txt": func(b *bytes.Buffer) error { return WriteList(b, all, true, true, noon) },
		"plan.txt":      func(b *bytes.Buffer) error { return WritePlan(b, planned(), noon) },
		"plan-no.txt":   func(b *bytes.Buffer) error { return WritePlan(b, refused, noon) },
		"plan-undo.txt": func(b *bytes.Buffer) error {
			return WritePlan(b, changed(func(r *api.Restore) {
				*r = *planned()
				r.Spec.Backup, r.Spec.Undo, r.Spec.Mode, r.Status.Backup, r.Status.BackupFinished = "", "earlier", api.InPlace, "", nil
				r.Status.Message = "what was written since the restore is lost"
				r.Status.Pods = []api.PodRestore{{Name: "cassandra-1", Action: api.ActionUndo}}
			}), noon)
		},
	}
	for name, r := range map[string]*api.Restore{"running": running(), "completed": completedRestore(), "failed": failedRestore(), "cancelled": cancelledRestore(), "suspended": fresh(), "unseen": unseen(), "planned": planned(), "refused": refused} {
		files["show-"+name+".txt"] = func(b *bytes.Buffer) error { return Show(b, r, nil, noon) }
	}
	files["show-cancelled-early.txt"] = func(b *bytes.Buffer) error { return Show(b, cancelledEarly(), nil, noon) }
	files["show-replaced.txt"] = func(b *bytes.Buffer) error { return Show(b, completedRestore(), later(), noon) }
	files["progress-final-70.txt"] = func(b *bytes.Buffer) error {
		r := cancelledRestore()
		r.Status.Pods[0].Phase, r.Status.Pods[1].Phase = api.PodCancelled, api.PodCancelled
		r.Status.Message = "cancelled with 0/3 pods restored; status.pods says in what state the volume of each is"
		_, err := fmt.Fprintln(b, strings.Join(Lines(r, 70, 24, noon), "\n"))
		return err
	}
	for name, screen := range map[string][2]int{"wide": {140, 40}, "80": {80, 24}, "70": {70, 24}, "60": {60, 24}, "narrow": {40, 24}, "low": {100, 5}, "unknown": {0, 0}} {
		files["progress-"+name+".txt"] = func(b *bytes.Buffer) error {
			_, err := fmt.Fprintln(b, strings.Join(Lines(running(), screen[0], screen[1], noon), "\n"))
			return err
		}
	}
	files["progress-plain.txt"] = func(b *bytes.Buffer) error {
		course(&Progress{Out: b, Now: func() time.Time { return noon }})
		return nil
	}
	files["progress-terminal.txt"] = func(b *bytes.Buffer) error {
		course(&Progress{Out: b, Now: func() time.Time { return noon }, Size: func() (int, int) { return 90, 24 }})
		return nil
	}
	for file, write := range files {
		var got bytes.Buffer
		if err := write(&got); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsRune(got.String(), '\x1b') && file != "progress-terminal.txt" {
			t.Errorf("%s: what the cluster holds writes to the terminal: %q", file, &got)
		}
		golden.Compare(t, "testdata/"+file, got.Bytes())
	}
	there, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range there {
		if files[filepath.Base(path)] == nil {
			t.Errorf("%s belongs to nothing", path)
		}
	}
}

// TestUndoIsOffered where the controller would look for something to go back to, and
// nowhere else.
func TestUndoIsOffered(t *testing.T) {
	begun := func(r *api.Restore) {
		r.Status.Pods, r.Status.Pending = []api.PodRestore{{Name: "a", Phase: api.PodRestoring, Started: at(-time.Minute)}}, nil
	}
	for what, c := range map[string]struct {
		phase  api.RestorePhase
		change func(*api.Restore)
		want   bool
	}{
		"completed, kept": {api.RestoreCompleted, func(r *api.Restore) {
			begun(r)
			r.Status.Pods[0].Phase, r.Status.Pods[0].Previous = api.PodRestored, true
		}, true},
		"completed, not kept":      {api.RestoreCompleted, func(r *api.Restore) { begun(r); r.Status.Pods[0].Phase = api.PodRestored }, false},
		"cancelled in the middle":  {api.RestoreCancelled, begun, true},
		"cancelled, kept":          {api.RestoreCancelled, func(r *api.Restore) { begun(r); r.Status.Pods[0].Previous = true }, true},
		"cancelled, not begun":     {api.RestoreCancelled, func(r *api.Restore) { begun(r); r.Status.Pods[0].Started = nil }, false},
		"cancelled, after its end": {api.RestoreCancelled, func(r *api.Restore) { begun(r); r.Status.Pods[0].Phase = api.PodRestored }, false},
		"failed, nothing held":     {api.RestoreFailed, begun, true},
		"failed, held":             {api.RestoreFailed, func(r *api.Restore) { begun(r); r.Status.Pending = []string{"a"} }, false},
		"running":                  {api.RestoreRestoring, begun, false},
		"failed in the prechecks":  {api.RestoreFailed, func(r *api.Restore) { begun(r); r.Status.Pods = nil }, false},
	} {
		r := running()
		r.Status.Phase = c.phase
		c.change(r)
		if next := strings.Join(Next(r, nil, noon), "\n"); strings.Contains(next, "restore undo") != c.want {
			t.Errorf("%s: %s", what, next)
		}
	}
}

// course shows a Restore of one pod from its beginning to its end.
func course(p *Progress) {
	r := running()
	r.Status = api.RestoreStatus{}
	p.Show(r)
	p.Note("nobody takes it up")
	pod := api.PodRestore{Name: "cassandra-0", Phase: api.PodPlanned, BytesTotal: 1000}
	step := func(phase api.RestorePhase, message string, podPhase api.PodPhase, bytes int64) {
		r.Status.Phase, r.Status.Message = phase, message
		pod.Phase, pod.Bytes = podPhase, bytes
		r.Status.Pods = []api.PodRestore{pod}
		p.Show(r)
		p.Show(r) // nothing new
	}
	step(api.RestoreWaiting, "a backup runs on cassandra-0", api.PodPlanned, 0)
	step(api.RestoreStopping, "", api.PodStopping, 0)
	step(api.RestoreRestoring, "", api.PodRestoring, 10)
	step(api.RestoreRestoring, "", api.PodRestoring, 20) // of the same tenth
	step(api.RestoreRestoring, "", api.PodRestoring, 550)
	pod.Failures, pod.Message = 1, "no answer from the storage"
	step(api.RestoreRestoring, "", api.PodRestoring, 0)
	pod.Message = ""
	step(api.RestoreCompleted, "all pods are restored", api.PodRestored, 1000)
}

// No line is as wide as the terminal, and there are fewer than it has rows, whatever
// its size: else redrawing would leave old lines above.
func TestLinesFit(t *testing.T) {
	r := running()
	for i := range 50 {
		r.Status.Pods = append(r.Status.Pods, api.PodRestore{Name: fmt.Sprintf("a-workload-with-quite-a-long-name-rack%d-%d", i, i), Phase: api.PodRestoring, Bytes: 1 << 40, BytesTotal: 2 << 40, Started: at(-time.Hour), Message: strings.Repeat("ä", 90)})
	}
	for columns := 1; columns < 200; columns += 3 {
		for rows := 4; rows < 70; rows += 7 {
			lines := Lines(r, columns, rows, noon)
			if len(lines) >= rows {
				t.Fatalf("%d lines on %d rows", len(lines), rows)
			}
			for _, line := range lines {
				if n := utf8.RuneCountInString(line); n >= columns {
					t.Fatalf("a line of %d on %d columns: %q", n, columns, line)
				}
			}
		}
	}
}

// Down to sixty columns every pod has a bar of ten cells at least, and how far it is
// beside it, however long its name.
func TestBarsStay(t *testing.T) {
	cells := regexp.MustCompile(`\[([=> ]+)\]`)
	for columns := 60; columns < 200; columns++ {
		for _, name := range []string{"c-0", "cassandra-10", "a-workload-with-quite-a-long-name-rack1-10"} {
			r := running()
			for i := range r.Status.Pods {
				r.Status.Pods[i].Name = name
			}
			for _, line := range Lines(r, columns, 24, noon)[2:] {
				bar := cells.FindStringSubmatch(line)
				if len(bar) == 0 || len(bar[1]) < 10 || !strings.Contains(line, name[len(name)-2:]) || strings.Contains(line, "restoring") && !strings.Contains(line, "%") {
					t.Fatalf("%d columns: %q", columns, line)
				}
			}
		}
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1048575: "1.0 MiB", 1 << 40: "1.0 TiB", 1<<63 - 1: "8.0 EiB"} {
		if got := Size(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
}

// A pod is not said to be done before it is, and huge volumes do not overflow.
func TestPercent(t *testing.T) {
	for _, c := range []struct {
		pod  api.PodRestore
		want int
	}{
		{api.PodRestore{Phase: api.PodRestoring, Bytes: 10, BytesTotal: 10}, 99},
		{api.PodRestore{Phase: api.PodRestoring, Bytes: 1 << 62, BytesTotal: 1<<63 - 1}, 50},
		{api.PodRestore{Phase: api.PodRestoring, Bytes: 20, BytesTotal: 10}, 99},
		{api.PodRestore{Phase: api.PodRestoring, Bytes: -1, BytesTotal: 10}, 0},
		{api.PodRestore{Phase: api.PodRestoring}, 0},
		{api.PodRestore{Phase: api.PodRestored}, 100},
		{api.PodRestore{Phase: api.PodJoining, BytesTotal: 10}, 100},
	} {
		if got := percentOf(&c.pod); got != c.want {
			t.Errorf("%+v: %d, want %d", c.pod, got, c.want)
		}
	}
}
