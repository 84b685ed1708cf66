package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// acts is a controller that adopts, and backs up what has a sidecar.
func acts(t *testing.T, s *keeping) func(client.Object) {
	return func(o client.Object) {
		adopts(o)
		b, ok := o.(*api.Backup)
		if !ok {
			return
		}
		b.Status.Phase, b.Status.Pods = api.BackupComplete, nil
		if b.Spec.DryRun {
			b.Status.Phase = api.BackupPlanned
		}
		for _, held := range s.objects["pods"] {
			if held.GetNamespace() != b.Namespace {
				continue
			}
			p := api.PodBackup{Name: held.GetName(), Phase: api.PodBackupComplete, Objects: 1, Bytes: 1}
			if b.Spec.DryRun {
				p.Phase = api.PodBackupWaiting
			}
			if held.GetLabels()[api.LabelInjected] == "" {
				p.Phase, p.Message = api.PodBackupFailed, "it has no sidecar"
				if !b.Spec.DryRun {
					t.Errorf("backed up before %s was adopted", p.Name)
				}
			}
			b.Status.Pods = append(b.Status.Pods, p)
		}
	}
}

// TestBackupAdopts goes through what backup --adopt prints, writes and ends with.
func TestBackupAdopts(t *testing.T) {
	fast(t)
	keepsNone := func(pod *corev1.Pod) {
		pod.Labels[api.LabelWorkload] = "anna"
		pod.Spec.Containers = []corev1.Container{{Name: "route-container", Image: "hydroproject/anna", Args: []string{"r"}, Env: []corev1.EnvVar{{Name: "SERVER_TYPE", Value: "r"}}}}
	}
	for _, c := range []struct {
		what, line string
		objects    []client.Object
		react      bool
		refused    bool
		err        string
		out, notes string
		asked      string
		left       int // Backups
	}{
		{what: "all first", line: "sts/db --adopt --wait --name b", objects: running(), react: true, asked: "db-0=running db-1=running", left: 1,
			out: "pod/db-0 is asked to be adopted\npod/db-1 is asked to be adopted\nTIME db-0: adopted: stategraft-agent-1, stategraft-medusa-2\nTIME db-1: adopted: stategraft-agent-1, stategraft-medusa-2\nbackup.stategraft.io/b created\nTIME Complete\n"},
		{what: "one of them", line: "sts/db --adopt --name b", objects: running(only("db-0", withSidecar)), react: true, out: "pod/db-1 is asked to be adopted\nTIME db-1: adopted: ", notes: "How far it is", asked: "db-1=running", left: 1},
		{what: "none lacks it", line: "pod/db-0 --adopt --name b", objects: running(withSidecar), react: true, out: "backup.stategraft.io/b created\n", notes: "Not in this backup: db-1", left: 1},
		{what: "as a name", line: "-l app=db --adopt --name b -o name", objects: running(), react: true, out: "backup.stategraft.io/b\n", notes: "TIME db-0: adopted: ", asked: "db-0=running db-1=running", left: 1},
		{what: "one cannot be", line: "sts/db --adopt --name b", objects: running(only("db-0", bySubPath)), react: true, refused: true,
			notes: "pod/db-0 cannot be adopted (sub-path): "},
		{what: "nobody acts", line: "sts/db --adopt --name b --adopt-timeout 5s", objects: running(), out: "TIME db-0: waits for the controller\n", asked: "db-0=running db-1=running",
			err: "nothing was backed up: 2 pods are without sidecar after 5s"},
		{what: "without the label", line: "pod/x-0 -n plain --adopt", objects: running(), err: "kubectl label namespace plain stategraft.io/inject=enabled, then ask again"},
		{what: "the plan of all", line: "sts/db --adopt --dry-run", objects: running(), react: true, out: "Plan for namespace ns: adopt 2 of 2 pods, which go on running, one of a workload at a time\n", notes: "can be planned once a pod has its sidecar"},
		{what: "the plan of one", line: "sts/db --adopt --dry-run", objects: running(only("db-0", withSidecar)), react: true, out: "adopt 1 of 1 pod, which goes on running\n\n  POD    PLAN    CONTAINERS\n  db-1   adopt   ", notes: "db-1 gets its sidecar before it begins"},
		{what: "both plans", line: "sts/db --adopt --dry-run", objects: running(only("db-0", withSidecar)), react: true, out: "\n\nPlan for namespace ns: a differential backup of 2 pods", notes: "as they are now"},
		{what: "the plan for programs", line: "sts/db --adopt --dry-run -o json", objects: running(only("db-0", withSidecar)), react: true, out: `"phase": "Planned"`, notes: "adopt 1 of 1 pod"},
		{what: "the plan where nothing lacks", line: "sts/db --adopt --dry-run", objects: running(withSidecar), react: true, out: "Plan for namespace ns: a differential backup"},
		{what: "the plan where one cannot", line: "sts/db --adopt --dry-run", objects: running(only("db-0", bySubPath)), react: true, refused: true, out: "db-0   cannot", notes: "nothing was backed up: db-0 cannot be adopted"},
		{what: "without --adopt", line: "sts/db --dry-run", objects: running(only("db-0", withSidecar)), react: true, refused: true, out: "it has no sidecar"},
		{what: "one that keeps nothing", line: "sts/db --adopt --name b", objects: running(only("db-0", keepsNone), only("db-1", withSidecar)), out: "backup.stategraft.io/b created\n", notes: "warning: ", left: 1},
		{what: "time of what is not done", line: "sts/db --adopt-timeout 1m", objects: running(), err: "--adopt-timeout: nothing is adopted; give --adopt"},
		{what: "no time", line: "sts/db --adopt --adopt-timeout 0s", objects: running(), err: "--adopt-timeout 0s: it takes a duration above zero"},
	} {
		t.Run(c.what, func(t *testing.T) {
			if strings.Contains(c.line, "timeout") { // in which nothing happens
				t.Parallel()
			}
			objects := append(slices.Clone(c.objects), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
				&corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "plain", Name: "x-0"}})
			s, kubeconfig := keepingServer(t, nil, objects...)
			if c.react {
				s.react = acts(t, s)
			}
			args := append([]string{"backup", "--kubeconfig", kubeconfig}, strings.Fields(c.line)...)
			if !strings.Contains(c.line, "-n ") {
				args = append(args, "-n", "ns")
			}
			out, notes, err := run(nil, args...)
			out, notes = stamps.ReplaceAllString(out, "TIME "), stamps.ReplaceAllString(notes, "TIME ")
			switch {
			case errors.Is(err, errRefused) != c.refused, c.err == "" && !c.refused && err != nil, c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("%s: error %v, want %q", c.what, err, c.err)
			}
			if !strings.Contains(out, c.out) || c.out == "" && out != "" || !strings.Contains(notes, c.notes) || c.notes == "" && notes != "" {
				t.Errorf("%s:\n%s\n%s", c.what, out, notes)
			}
			if got := askedOn(s); got != c.asked || len(s.backups()) != c.left {
				t.Errorf("%s: asked on %s, %d Backups", c.what, got, len(s.backups()))
			}
		})
	}
}
