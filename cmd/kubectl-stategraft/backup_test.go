package main

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	goldenfile "github.com/stategraft/stategraft/test/golden"
)

// podsOfRing are the two pods of the StatefulSet that the server has.
func podsOfRing() []client.Object {
	var all []client.Object
	for _, pod := range twoPods() {
		all = append(all, &pod)
	}
	return all
}

// backsUp is a controller that is done at once with what is not deleted, and with
// what is.
func backsUp(phase api.BackupPhase, message string) func(client.Object) {
	return func(o client.Object) {
		b, ok := o.(*api.Backup)
		if !ok {
			return
		}
		if !b.DeletionTimestamp.IsZero() {
			b.Finalizers = nil
			return
		}
		b.Status.Phase, b.Status.Message, b.Status.Name, b.Status.ObservedGeneration = phase, message, "20261130-030000-m0a1b2c3d-"+b.Name, b.Generation
		b.Status.Pods = []api.PodBackup{{Name: "db-0", Phase: api.PodBackupComplete, Objects: 3, Bytes: 1 << 20}}
		if b.Spec.DryRun {
			b.Status.Phase, b.Status.Pods[0] = api.BackupPlanned, api.PodBackup{Name: "db-0", Phase: api.PodBackupWaiting}
		}
	}
}

func backupIn(name string, change func(*api.Backup)) *api.Backup {
	b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC))},
		Spec:   api.BackupSpec{Pods: &api.BackupPods{Workload: &api.BackupWorkload{Kind: "StatefulSet", Name: "db"}}, DeletionPolicy: api.DeletionKeep},
		Status: api.BackupStatus{Phase: api.BackupComplete, Name: "20261130-030000-m0a1b2c3d-" + name}}
	if change != nil {
		change(b)
	}
	return b
}

// TestBackupObjects compares the object that each command line makes with what it was.
func TestBackupObjects(t *testing.T) {
	stamped := regexp.MustCompile(`-\d{8}-\d{6}`)
	var got bytes.Buffer
	for _, line := range []string{
		"statefulset/db",
		"sts/db --name before-upgrade --type full --parallel 1 --timeout 90m --retries 0 --deletion-policy delete",
		"pod/db-1 pod/db-0 --delete-policy Keep --pin",
		"-l app=db,tier!=x --type differential",
		"statefulset/db pod/db-1 pod/other",
	} {
		s, kubeconfig := keepingServer(t, nil, append(podsOfRing(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other"}})...)
		_, _, err := run(nil, append([]string{"backup", "-n", "ns", "--kubeconfig", kubeconfig}, strings.Fields(line)...)...)
		all := s.backups()
		if err != nil || len(all) != 1 {
			t.Errorf("%s: %d objects, %v", line, len(all), err)
			continue
		}
		name := stamped.ReplaceAllString(all[0].Name, "-STAMP")
		text, err := yaml.Marshal(map[string]any{"name": name, "namespace": all[0].Namespace, "spec": all[0].Spec})
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString("# " + line + "\n" + string(text) + "---\n")
	}
	goldenfile.Compare(t, "testdata/backups.yaml", got.Bytes())
}

// A command line that is wrong ends with status 2 before anything is changed.
func TestBackupUsage(t *testing.T) {
	for line, want := range map[string]string{
		"backup":                                          "which pods?",
		"backup db-0":                                     "it takes pod/NAME or statefulset/NAME, or a command: list, show, wait, delete, pin",
		"backup deploy/x":                                 "only pods and StatefulSets can be backed up",
		"backup pod/db-0 -l a=b":                          "exclude one another",
		"backup sts/db -l a=b":                            "exclude one another",
		"backup sts/none":                                 "there is no statefulset none in namespace ns",
		"backup pod/none":                                 "there is no pod none in namespace ns",
		"backup sts/db --type incremental":                "--type incremental: it takes differential, full",
		"backup sts/db --deletion-policy purge":           "--deletion-policy purge: it takes keep, delete",
		"backup sts/db --parallel -1":                     "--parallel -1: it takes a number of pods up to 1000",
		"backup sts/db --retries 11":                      "--retries 11: it takes a number up to 10",
		"backup sts/db --timeout 0s":                      "--timeout 0s: it takes a duration above zero",
		"backup sts/db --dry-run --wait":                  "exclude one another",
		"backup sts/db --name A_B":                        "--name A_B",
		"backup sts/db --name latest":                     "restore --backup latest is the newest",
		"backup sts/db --name " + strings.Repeat("a", 64): "at most 63 characters",
		"backup sts/db --name old":                        "there is a Backup old in namespace ns already",
		"backup sts/db -o wide":                           "--output wide: it takes json, yaml, name",
		"backup sts/db --bogus":                           "unknown flag",
		"backup list -o xml":                              "--output xml: it takes json, yaml, wide, name",
		"backup list x":                                   "unknown command",
		"backup list -l a=b=c":                            "-l a=b=c",
		"backup list --schedule A_B":                      "--schedule A_B",
		"backup show":                                     "accepts 1 arg",
		"backup show none":                                "there is no Backup none in namespace ns (kubectl stategraft backup list",
		"backup show old -o wide":                         "--output wide",
		"backup wait none":                                "there is no Backup none",
		"backup wait old --timeout -1s":                   "--timeout -1s",
		"backup delete":                                   "requires at least 1 arg",
		"backup delete none":                              "there is no Backup none",
		"backup delete old --data --keep-data":            "exclude one another",
		"backup delete old --data":                        "the data of old are deleted from the storage for good, and there is no terminal to ask on: give --yes, or --keep-data",
		"backup delete old --timeout 1m":                  "nothing is waited for; give --wait",
		"backup delete old -o json":                       "--output json: it takes name",
		"backup delete running --yes":                     "the Backup running is not over (Running): cancel it first",
		"backup pin none":                                 "there is no Backup none",
		"backup cancel old":                               "the Backup old is over (Complete): there is nothing to cancel",
		"backup cancel found":                             "was found in the storage, and nothing here makes it",
		"backup suspend old":                              "is over (Complete)",
		"status x":                                        "status takes no names; for the namespace say -n x",
		"status -o name":                                  "--output name: it takes json, yaml, wide",
		"status -n gone":                                  `there is no namespace "gone"`,
		"sync --timeout 0s":                               "--timeout 0s: it takes a duration above zero",
		"sync --wait=false -o json":                       "nothing is waited for that could be printed",
		"sync -o name":                                    "--output name: it takes json, yaml",
		"sync":                                            "there is no ConfigMap stategraft-catalogue in namespace ns, which the controller makes: does the controller run",
		"sync -n gone":                                    `there is no namespace "gone"`,
		"sync -n plain":                                   "kubectl label namespace plain stategraft.io/inject=enabled",
		"restore --yes pod/db-0 --backup running":         "the Backup running is nothing to restore yet (Running)",
	} {
		s, kubeconfig := keepingServer(t, nil, append(podsOfRing(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}, backupIn("old", nil),
			backupIn("running", func(b *api.Backup) { b.Status.Phase = api.BackupRunning }),
			backupIn("found", func(b *api.Backup) {
				b.Spec = api.BackupSpec{Existing: &api.ExistingBackup{Name: "x", Prefix: "p"}}
				b.Status.Name = "x"
			}))...)
		args := append(strings.Fields(line), "--kubeconfig", kubeconfig)
		if !strings.Contains(line, "-n ") {
			args = append(args, "-n", "ns")
		}
		out, notes, err := run(nil, args...)
		if err == nil || errors.Is(err, errRefused) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
		if all := s.backups(); len(all) != 3 || slices.ContainsFunc(all, func(b *api.Backup) bool { return b.Spec.Cancel || b.Spec.Pinned || b.Spec.Suspend }) || out != "" || notes != "" {
			t.Errorf("%s: %d objects, %q, %q", line, len(all), out, notes)
		}
	}
}

// What cannot be is said as it is asked for, and asked for all the same: what lacks may
// come a moment later.
func TestBackupWarns(t *testing.T) {
	pod := twoPods()[0]
	pod.Labels = map[string]string{"app": "db"}
	s, kubeconfig := keepingServer(t, nil, &pod)
	_, notes, err := run(nil, "backup", "pod/db-0", "--name", "b", "-n", "ns", "--kubeconfig", kubeconfig)
	if err != nil || len(s.backups()) != 1 || !strings.HasPrefix(notes, "warning: none of the pods has a sidecar: with --adopt they are given theirs first, as they run; or re-create them once") {
		t.Errorf("%v, %q, %d made", err, notes, len(s.backups()))
	}
}

// TestBackupRuns goes through what a command prints, leaves and ends with.
func TestBackupRuns(t *testing.T) {
	for _, c := range []struct {
		what, line string
		react      func(client.Object)
		refused    bool   // status 1
		err        string // of status 2
		out, notes string // parts; empty for none at all
		left       int
	}{
		{"asked for", "sts/db", nil, false, "", "created\n", "How far it is: kubectl stategraft backup wait db-", 1},
		{"as a name", "sts/db -o name --name b", nil, false, "", "backup.stategraft.io/b\n", "", 1},
		{"as YAML", "sts/db -o yaml --name b", nil, false, "", "kind: Backup\n", "", 1},
		{"a pod alone", "pod/db-1 --name b", nil, false, "", "created\n", "Not in this backup: db-0, of the same workload.", 1},
		{"waited for", "sts/db --wait --name b", backsUp(api.BackupComplete, "so it is"), false, "", "db-0: complete, 1.0 MiB in 3 objects\n", "", 1},
		{"waited for, as JSON", "sts/db --wait --name b -o json", backsUp(api.BackupComplete, "so it is"), false, "", `"phase": "Complete"`, "Complete: so it is", 1},
		{"partial", "sts/db --wait --name b", backsUp(api.BackupPartial, "db-1 has gone"), true, "", "Partial: db-1 has gone", "error: the Backup b is not complete (Partial)", 1},
		{"failed", "sts/db --wait --name b", backsUp(api.BackupFailed, "no room"), true, "", "Failed: no room", "error: the Backup b is not complete (Failed)", 1},
		{"cancelled", "sts/db --wait --name b", backsUp(api.BackupCancelled, "by somebody"), true, "", "Cancelled: by somebody", "(Cancelled)", 1},
		{"time is up", "wait running --timeout 5s", nil, false, "the Backup running is not over after 5s (Running: pods upload); it goes on.\n  to see it:    kubectl stategraft backup wait running -n ns\n  to cancel it: kubectl stategraft backup cancel running -n ns", "Running", "", 1},
		{"planned", "sts/db --dry-run", backsUp(api.BackupComplete, ""), false, "", "db-0   db-0   back up", "", 0},
		{"planned, as YAML", "sts/db --dry-run -o yaml", backsUp(api.BackupComplete, ""), false, "", "phase: Planned", "", 0},
		{"would be refused", "sts/db --dry-run", func(o client.Object) {
			if b, ok := o.(*api.Backup); ok {
				b.Status.Phase, b.Status.Message = api.BackupPlanned, "it would wait: namespace ns does not have the label"
			}
		}, true, "", "This cannot be backed up: it would wait: namespace ns does not have the label", "", 0},
		{"cannot be planned", "sts/db --dry-run", func(o client.Object) {
			if b, ok := o.(*api.Backup); ok {
				b.Status.Phase, b.Status.Message = api.BackupFailed, "no sidecars"
			}
		}, true, "", "This cannot be backed up: no sidecars", "", 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			if strings.Contains(c.line, "timeout") { // in which nothing happens
				t.Parallel()
			}
			var objects []client.Object
			if strings.HasPrefix(c.line, "wait") {
				objects = append(objects, backupIn("running", func(b *api.Backup) { b.Status.Phase, b.Status.Message = api.BackupRunning, "pods upload" }))
			}
			s, kubeconfig := keepingServer(t, c.react, append(podsOfRing(), objects...)...)
			out, notes, err := run(nil, append([]string{"backup", "-n", "ns", "--kubeconfig", kubeconfig}, strings.Fields(c.line)...)...)
			switch {
			case errors.Is(err, errRefused) != c.refused, c.err == "" && !c.refused && err != nil, c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("%s: error %v, want %q", c.what, err, c.err)
			}
			if !strings.Contains(out, c.out) || c.out == "" && out != "" || !strings.Contains(notes, c.notes) || c.notes == "" && notes != "" {
				t.Errorf("%s: %q, %q", c.what, out, notes)
			}
			if all := s.backups(); len(all) != c.left {
				t.Errorf("%s: left %d", c.what, len(all))
			}
		})
	}
}
