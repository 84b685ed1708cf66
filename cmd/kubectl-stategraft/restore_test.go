package main

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	goldenfile "github.com/stategraft/stategraft/test/golden"
)

// completes is a controller that is done at once; it plans what is a dry run.
func completes(r *api.Restore) {
	r.Status.Phase = api.RestoreCompleted
	if r.Spec.DryRun {
		r.Status.Phase, r.Status.Backup = api.RestorePlanned, "nightly-2"
	}
	r.Status.Message = "so it is"
	r.Status.Pods = []api.PodRestore{{Name: "db-0", Phase: api.PodRestored, Action: api.ActionRestore, Node: "db-0", BytesTotal: 1 << 20}}
}

func fails(r *api.Restore) {
	r.Status.Phase, r.Status.Message = api.RestoreFailed, "there is no backup nightli"
}

// TestRestoreObjects compares the object that each command line makes with what it
// was. -update writes them anew.
func TestRestoreObjects(t *testing.T) {
	stamped := regexp.MustCompile(`-\d{8}-\d{6}`)
	var got bytes.Buffer
	for _, line := range []string{
		"pod/db-1",
		"--backup nightly-1 --name mine pod/db-1 pod/db-0",
		"--backup 2026-11-30T08:00:00Z statefulset/db",
		"-l app=db,tier!=x --parallel 2 --deadline 90m",
		"--mode in-place --when-no-backup empty --keep-previous always pod/db-0",
		"--mode remote --source-prefix prod-ring --node db-0=cassandra-2 --node pod/db-1=cassandra-0 --keep-previous never sts/db",
		"--mode Remote --source-cluster prod/ring --when-no-backup Fail --keep-previous IfRoom sts/db",
		"--mode remote --source-prefix= --keep-previous if-room sts/db",
		"undo mine",
		"undo mine pod/db-1 --parallel 1 --deadline 1h --name back",
	} {
		s, kubeconfig := restoringServer(t, nil)
		s.list = []*api.Restore{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mine", UID: "0"}, Status: api.RestoreStatus{Phase: api.RestoreCompleted}}}
		if !strings.HasPrefix(line, "undo") {
			s.list = nil
		}
		_, _, err := run(nil, append(append([]string{"restore"}, strings.Fields(line)...), "--yes", "-n", "ns", "--kubeconfig", kubeconfig)...)
		if err != nil || len(s.list) == 0 {
			t.Errorf("%s: %d objects, %v", line, len(s.list), err)
			continue
		}
		made := s.list[len(s.list)-1]
		made.Name = stamped.ReplaceAllString(made.Name, "-STAMP")
		text, err := yaml.Marshal(map[string]any{"name": made.Name, "namespace": made.Namespace, "spec": made.Spec})
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString("# " + line + "\n" + string(text) + "---\n")
	}
	goldenfile.Compare(t, "testdata/restores.yaml", got.Bytes())
}

// A command line that is wrong ends with status 2 before anything is asked for.
func TestRestoreUsage(t *testing.T) {
	for line, want := range map[string]string{
		"pod/db-0":                              "there is no terminal to ask on: give --yes, or --dry-run",
		"--yes":                                 "which pods?",
		"--yes db-0":                            "it takes pod/NAME or statefulset/NAME",
		"--yes pod/db-0 -l a=b":                 "exclude one another",
		"--yes --mode sideways pod/db-0":        "--mode sideways: it takes in-place, remote",
		"--yes --when-no-backup never pod/db-0": "--when-no-backup never: it takes fail, empty",
		"--yes --keep-previous no pod/db-0":     "it takes always, if-room, never",
		"--yes --mode remote pod/db-0":          "whose backup is it?",
		"--yes --source-prefix a --source-cluster b pod/db-0": "exclude one another",
		"--yes --source-prefix a/b pod/db-0":                  "has no slash",
		"--yes --node db-0 pod/db-0":                          "it takes POD=NODE",
		"--yes --node db-0=a --node db-0=b pod/db-0":          "pod db-0 is given twice",
		"--yes --node db-0=a --node db-1=a sts/db":            "node a is db-0's already",
		"--yes --node db-1=a pod/db-0":                        "pod db-1 is not one of those to restore: db-0",
		"--yes --parallel -1 pod/db-0":                        "--parallel -1",
		"--yes --deadline 0s pod/db-0":                        "above zero",
		"--yes --timeout 1m pod/db-0":                         "give --wait",
		"--yes --wait --timeout -1m pod/db-0":                 "--timeout -1m0s",
		"--dry-run --wait pod/db-0":                           "exclude one another",
		"--yes --backup= pod/db-0":                            "--backup: it takes",
		"--yes --backup 2026-11-30T08:00:00 pod/db-0":         "a time is written with its zone",
		"--yes --name A_B pod/db-0":                           "--name A_B",
		"--yes -o wide pod/db-0":                              "--output wide: it takes json, yaml, name",
		"--yes --bogus pod/db-0":                              "unknown flag",
		"list -o xml":                                         "--output xml: it takes json, yaml, wide, name",
		"list x":                                              "unknown command",
		"show":                                                "accepts 1 arg",
		"show none":                                           "there is no Restore none in namespace ns",
		"wait none":                                           "there is no Restore none in namespace ns",
		"undo none --yes":                                     "there is no Restore none in namespace ns",
		"undo none":                                           "there is no Restore none in namespace ns",
		"undo done":                                           "there is no terminal to ask on",
		"cancel none":                                         "there is no Restore none in namespace ns",
		"cancel done":                                         "the Restore done is over (Completed): there is nothing to cancel",
		"suspend done":                                        "there is nothing to suspend",
		"cancel runs":                                         "db-0 is restored right now",
		"undo runs --yes":                                     "the Restore runs is not over (Restoring, pods 0/1)",
		"undo late --yes":                                     "the Restore late (Failed) still keeps db-0, db-1 from starting: cancel it first",
		"--yes pod/db-9":                                      "there is no pod db-9 in namespace ns; there are db-0, db-1",
		"--yes statefulset/no":                                "there is no statefulset no in namespace ns",
		"--yes --name done pod/db-0 --kubeconfig /none":       "reading the kubeconfig",
	} {
		s, kubeconfig := restoringServer(t, nil)
		s.list = []*api.Restore{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "done"}, Status: api.RestoreStatus{Phase: api.RestoreCompleted}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "runs"}, Status: api.RestoreStatus{Phase: api.RestoreRestoring, Progress: api.RestoreProgress{Pods: "0/1"}, Pods: []api.PodRestore{{Name: "db-0", Phase: api.PodRestoring}}}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "late"}, Status: api.RestoreStatus{Phase: api.RestoreFailed, Pending: []string{"db-0", "db-1"}}}}
		out, notes, err := run(nil, append([]string{"restore", "-n", "ns", "--kubeconfig", kubeconfig}, strings.Fields(line)...)...)
		if err == nil || errors.Is(err, errRefused) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
		if len(s.list) != 3 || s.list[1].Spec.Cancel || out != "" || notes != "" {
			t.Errorf("%s: %d objects, %q, %q", line, len(s.list), out, notes)
		}
	}
}

// TestRestoreRuns goes through what a command prints, leaves and ends with.
func TestRestoreRuns(t *testing.T) {
	cancelled := func(r *api.Restore) { r.Status.Phase, r.Status.Message = api.RestoreCancelled, "by somebody" }
	for _, c := range []struct {
		what, line string
		react      func(*api.Restore)
		refused    bool   // status 1
		err        string // of status 2
		out, notes string // parts; empty for none at all
		left       int
	}{
		{"asked for", "pod/db-1 --yes", nil, false, "", "created\n", "How far it is: kubectl stategraft restore wait db-", 1},
		{"as a name", "pod/db-1 --yes -o name --name r", nil, false, "", "restore.stategraft.io/r\n", "", 1},
		{"as YAML", "pod/db-1 --yes -o yaml --name r", nil, false, "", "kind: Restore\n", "", 1},
		{"waited for", "pod/db-1 --yes --wait --name r", completes, false, "", "restore.stategraft.io/r created\n", "", 1},
		{"waited for, as JSON", "pod/db-1 --yes --wait --name r -o json", completes, false, "", `"phase": "Completed"`, "Completed: so it is", 1},
		{"failed", "pod/db-1 --yes --wait --name r", fails, true, "", "Failed: there is no backup nightli", "error: the Restore r failed", 1},
		{"cancelled", "pod/db-1 --yes --wait --name r", cancelled, true, "", "Cancelled: by somebody", "error: the Restore r cancelled", 1},
		{"time is up", "pod/db-1 --yes --wait --timeout 5s --name r", func(r *api.Restore) { r.Status.Phase, r.Status.Message = api.RestoreStopping, "pods go" }, false,
			"the Restore r is not over after 5s (Stopping: pods go); it goes on.\n  to see it:    kubectl stategraft restore wait r -n ns\n  to cancel it: kubectl stategraft restore cancel r -n ns", "Stopping", "", 1},
		{"planned", "pod/db-1 --dry-run", completes, false, "", "db-0   restore   db-0                 1.0 MiB", "", 0},
		{"planned, as YAML", "pod/db-1 --dry-run -o yaml", completes, false, "", "phase: Planned", "", 0},
		{"cannot be planned", "pod/db-1 --dry-run", fails, true, "", "This cannot be restored, and nothing was touched: there is no backup nightli", "", 0},
		{"never planned", "pod/db-1 --dry-run --timeout 5s", func(r *api.Restore) { r.Status.Phase, r.Status.Message = api.RestoreWaiting, "a backup runs" }, false,
			"there is no plan after 5s, and nothing was done (Waiting: a backup runs): give it longer", "", "Waiting: a backup runs\n", 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			if strings.Contains(c.line, "timeout") { // in which nothing happens
				t.Parallel()
			}
			s, kubeconfig := restoringServer(t, c.react)
			out, notes, err := run(nil, append([]string{"restore", "-n", "ns", "--kubeconfig", kubeconfig}, strings.Fields(c.line)...)...)
			switch {
			case errors.Is(err, errRefused) != c.refused, c.err == "" && !c.refused && err != nil, c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("%s: error %v, want %q", c.what, err, c.err)
			}
			if !strings.Contains(out, c.out) || c.out == "" && out != "" || !strings.Contains(notes, c.notes) || c.notes == "" && notes != "" {
				t.Errorf("%s: %q, %q", c.what, out, notes)
			}
			if len(s.list) != c.left || c.left == 0 && len(s.deleted) != 1 {
				t.Errorf("%s: left %d, deleted %q", c.what, len(s.list), s.deleted)
			}
		})
	}
}

// The cluster has no Restores: one sentence, with the remedy.
func TestRestoreNotServed(t *testing.T) {
	s, kubeconfig := restoringServer(t, nil)
	s.served = false
	for _, line := range []string{"pod/db-0 --yes", "pod/db-0 --dry-run", "statefulset/db --yes --wait", "list", "list -A", "show x", "wait x", "cancel x", "undo x --yes"} {
		_, _, err := run(nil, append([]string{"restore", "-n", "ns", "--kubeconfig", kubeconfig}, strings.Fields(line)...)...)
		if err == nil || !strings.HasPrefix(err.Error(), "this cluster has no Restores (the CustomResourceDefinition restores.stategraft.io is missing): install Stategraft or upgrade it") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestRestoreChanges(t *testing.T) {
	s, kubeconfig := restoringServer(t, func(r *api.Restore) {
		if r.Spec.Cancel {
			r.Status.Phase = api.RestoreCancelled
		}
	})
	s.list = []*api.Restore{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}, Status: api.RestoreStatus{Phase: api.RestoreRestoring, Pods: []api.PodRestore{{Name: "db-0", Phase: api.PodRestoring}}}}}
	for _, c := range []struct {
		args, out string
		is        func(api.RestoreSpec) bool
	}{
		{"suspend r", "restore.stategraft.io/r suspended\n", func(s api.RestoreSpec) bool { return s.Suspend }},
		{"suspend r", "restore.stategraft.io/r is suspended already\n", func(s api.RestoreSpec) bool { return s.Suspend }},
		{"resume restore.stategraft.io/r", "restore.stategraft.io/r resumed\n", func(s api.RestoreSpec) bool { return !s.Suspend }},
		{"resume r", "restore.stategraft.io/r is not suspended\n", func(s api.RestoreSpec) bool { return !s.Suspend }},
		{"cancel --yes sgr/r", "restore.stategraft.io/r cancelled\n", func(s api.RestoreSpec) bool { return s.Cancel }},
	} {
		out, _, err := run(nil, append([]string{"restore", "-n", "ns", "--kubeconfig", kubeconfig}, strings.Fields(c.args)...)...)
		if err != nil || out != c.out || !c.is(s.list[0].Spec) {
			t.Errorf("%s: %v, %q, %+v", c.args, err, out, s.list[0].Spec)
		}
	}
	for args, want := range map[string]string{"list": "r      <none>   <none>   Cancelled", "list -A": "ns          r", "list -o name": "restore.stategraft.io/r\n", "list -o json": `"kind": "RestoreList"`, "list -o wide": "MESSAGE",
		"show r": "What to do next", "show r -o yaml": "kind: Restore"} {
		out, _, err := run(nil, append([]string{"restore", "-n", "ns", "--kubeconfig", kubeconfig}, strings.Fields(args)...)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, %q", args, err, out)
		}
	}
	s.list = nil
	if out, notes, err := run(nil, "restore", "list", "-n", "ns", "--kubeconfig", kubeconfig); err != nil || out != "" || notes != "No resources found in ns namespace.\n" {
		t.Errorf("%v, %q, %q", err, out, notes)
	}
}

// Pods of a StatefulSet that are still to come are waited for with --wait, and refused
// without.
func TestRestoreWaitsForPods(t *testing.T) {
	defer func(was time.Duration) { podsAgain = was }(podsAgain)
	podsAgain = time.Millisecond
	for _, c := range []struct {
		line string
		late int
		err  string
	}{
		{"sts/db --yes --wait --name r", 3, ""},
		{"sts/db --yes --name r", 1, "is to have 2 pods and there are only db-0: wait for the others (kubectl -n ns get events; restore does with --wait)"},
		{"sts/db --yes --wait --timeout 50ms --name r", 1 << 30, "there are only db-0"},
	} {
		s, kubeconfig := restoringServer(t, completes)
		s.late = c.late
		_, notes, err := run(nil, append([]string{"restore", "-n", "ns", "--kubeconfig", kubeconfig}, strings.Fields(c.line)...)...)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || len(s.list) > 0 {
				t.Errorf("%s: %v, %d made", c.line, err, len(s.list))
			}
			continue
		}
		if err != nil || len(s.list) != 1 || len(s.list[0].Spec.Pods.Names) != 2 || strings.Count(notes, "statefulset db of namespace ns is to have 2 pods and there are only db-0: waiting for the others\n") != 1 {
			t.Errorf("%s: %v, %d made, %q", c.line, err, len(s.list), notes)
		}
	}
}
