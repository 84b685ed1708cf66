package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// injectedPods are the pods of the ring with a sidecar, made long ago.
func injectedPods() []client.Object {
	var all []client.Object
	for _, pod := range twoPods() {
		pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-100 * time.Hour))
		pod.Annotations = map[string]string{api.AnnotationRPO: "26h"}
		pod.Spec.Containers = []corev1.Container{{Name: "cassandra"}, {Name: "stategraft-agent"}}
		all = append(all, &pod)
	}
	return all
}

// backedUpAt is a complete Backup of the ring that was made some time ago.
func backedUpAt(name string, ago time.Duration, pods ...string) *api.Backup {
	started, finished := metav1.NewTime(time.Now().Add(-ago)), metav1.NewTime(time.Now().Add(-ago+time.Minute))
	return backupIn(name, func(b *api.Backup) {
		b.Status.Started, b.Status.Finished = &started, &finished
		for _, pod := range pods {
			b.Status.Pods = append(b.Status.Pods, api.PodBackup{Name: pod, Phase: api.PodBackupComplete, Objects: 1, Bytes: 1 << 30, Started: &started, Finished: &finished})
		}
	})
}

// refusedSchedule is one whose spec cannot be followed.
func refusedSchedule() *api.BackupSchedule {
	s := &api.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nightly"}, Spec: api.BackupScheduleSpec{Schedule: "0 3 31 6 *"}}
	s.Spec.Template.Spec.Pods = &api.BackupPods{Workload: &api.BackupWorkload{Name: "db"}}
	s.Status.Conditions = []metav1.Condition{{Type: api.ConditionAccepted, Status: metav1.ConditionFalse, Reason: "InvalidSchedule", Message: "it cannot be read"}}
	return s
}

// TestStatus tells by the output and by the exit status whether a pod is behind.
func TestStatus(t *testing.T) {
	fresh, old := backedUpAt("fresh", time.Hour, "db-0", "db-1"), backedUpAt("old", 60*time.Hour, "db-0", "db-1")
	for _, c := range []struct {
		what, line string
		objects    []client.Object
		refused    bool
		out, notes string
	}{
		{"all is well", "status --check", append(injectedPods(), fresh), false, "ns          db-0   injected   fresh         60m   1.0 GiB   <none>   <none>\n", ""},
		{"behind", "status --check", append(injectedPods(), old), true, "old           2d12h (behind)   1.0 GiB", "2 of 2 pods behind:\n  ns/db-0: its last complete backup, old, is "},
		{"behind, and nobody asks", "status", append(injectedPods(), old), false, "(behind)", "2 of 2 pods behind:"},
		{"of all namespaces", "status -A", append(injectedPods(), fresh), false, "ns          db-1   injected   fresh", ""},
		{"wide", "status -o wide", append(injectedPods(), fresh), false, "26h, by the pod", ""},
		{"as JSON", "status -o json", append(injectedPods(), old), false, `"behind": 2`, ""},
		{"as YAML", "status -o yaml --check", append(injectedPods(), old), true, "lastBackup: old\n", ""},
		{"a schedule is refused", "status --check", append(injectedPods(), fresh, refusedSchedule()), true, "db-0   injected   fresh", "BackupSchedule ns/nightly is refused, and makes no backup (InvalidSchedule): it cannot be read\n"},
		{"a schedule is refused, and nobody asks", "status", append(injectedPods(), fresh, refusedSchedule()), false, "db-0   injected   fresh", "is refused"},
		{"a schedule is refused, as JSON", "status --check -o json", append(injectedPods(), fresh, refusedSchedule()), true, `"problems": [`, ""},
		{"no pods, and a schedule", "status --check", []client.Object{refusedSchedule()}, true, "", "is refused"},
		{"a part has ended", "status", running(graft, func(p *corev1.Pod) {
			p.Status.EphemeralContainerStatuses[1].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
		}), false, "db-0   adopted", "ns/db-0: stategraft-medusa-2 has ended with status 1, and until one runs the pod is not backed up\n"},
		{"no pods", "status --check", nil, false, "", "No pod that ought to be backed up in namespace ns.\n"},
		{"no pods anywhere", "status -A", nil, false, "", "No pod that ought to be backed up in a labelled namespace.\n"},
	} {
		_, kubeconfig := keepingServer(t, nil, c.objects...)
		args := append(strings.Fields(c.line), "--kubeconfig", kubeconfig)
		if !strings.Contains(c.line, "-A") {
			args = append(args, "-n", "ns")
		}
		out, notes, err := run(nil, args...)
		if errors.Is(err, errRefused) != c.refused || !c.refused && err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if !strings.Contains(out, c.out) || c.out == "" && out != "" || !strings.Contains(notes, c.notes) || c.notes == "" && notes != "" {
			t.Errorf("%s:\n%s%s", c.what, out, notes)
		}
	}
}

func catalogueIn(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.ConfigMapCatalogue}}
}

// TestSync asks, waits for the answer and prints it; a storage that cannot be listed is
// status 1.
func TestSync(t *testing.T) {
	answers := func(documents map[string]string) func(client.Object) {
		return func(o client.Object) {
			if cm, ok := o.(*corev1.ConfigMap); ok && cm.Annotations[api.AnnotationSync] != "" {
				cm.Annotations[api.AnnotationSynced], cm.Data = cm.Annotations[api.AnnotationSync], documents
			}
		}
	}
	well := map[string]string{"ns_ring": `{"prefix":"ns_ring","pod":"db-0","listed":"2026-11-30T03:00:00Z","backups":12,"complete":11,"new":2}`}
	broken := map[string]string{"cluster-1": `{"prefix":"","pod":"db-0","backups":0,"complete":0,"new":0,"failed":"the bucket does not answer"}`}
	labelled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
	for _, c := range []struct {
		what, line string
		react      func(client.Object)
		objects    []client.Object
		refused    bool
		err        string
		out, notes string
	}{
		{"found", "sync -n ns", answers(well), []client.Object{catalogueIn("ns")}, false, "", "ns_ring   db-0   ", ""},
		{"as JSON", "sync -n ns -o json", answers(well), []client.Object{catalogueIn("ns")}, false, "", `"complete": 11`, ""},
		{"failed", "sync -n ns", answers(broken), []client.Object{catalogueIn("ns")}, true, "", "pod db-0 of namespace ns: FAILED: the bucket does not answer\n", ""},
		{"failed, as YAML", "sync -n ns -o yaml", answers(broken), []client.Object{catalogueIn("ns")}, true, "", "failed: the bucket does not answer\n", ""},
		{"no cluster", "sync -n ns", answers(nil), []client.Object{catalogueIn("ns")}, true, "", "namespace ns: no cluster was found", ""},
		{"no pod runs", "sync -n ns", answers(map[string]string{"cluster-1": `{"prefix":"","pod":"","backups":0,"complete":0,"new":0,"message":"no pod runs"}`}), []client.Object{catalogueIn("ns")}, true, "",
			"-        -     -        -         -          -     -         -\n\nnamespace ns: no pod runs\n", ""},
		{"of all namespaces", "sync -A", answers(well), []client.Object{labelled, catalogueIn("ns"), catalogueIn("other")}, false, "", "other       ns_ring   db-0", ""},
		{"one of them cannot be asked in", "sync -A", answers(well), []client.Object{labelled, catalogueIn("ns")}, false, "there is no ConfigMap stategraft-catalogue in namespace other, which the controller makes", "ns          ns_ring   db-0", ""},
		{"only asked", "sync -n ns --wait=false", nil, []client.Object{catalogueIn("ns")}, false, "", "", "Asked in namespace ns; what is found: kubectl stategraft backup list\n"},
		{"no answer", "sync -n ns --timeout 5s", nil, []client.Object{catalogueIn("ns")}, false, "namespace ns is not synced after 5s", "", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			if strings.Contains(c.line, "timeout") { // in which nothing happens
				t.Parallel()
			}
			_, kubeconfig := keepingServer(t, c.react, c.objects...)
			out, notes, err := run(nil, append(strings.Fields(c.line), "--kubeconfig", kubeconfig)...)
			if errors.Is(err, errRefused) != c.refused || c.err == "" && !c.refused && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%s: %v", c.what, err)
			}
			if !strings.Contains(out, c.out) || c.out == "" && out != "" || notes != c.notes {
				t.Errorf("%s: %q, %q", c.what, out, notes)
			}
		})
	}
}
