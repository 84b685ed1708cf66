package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func TestBackupChanges(t *testing.T) {
	s, kubeconfig := keepingServer(t, func(o client.Object) {
		if b, ok := o.(*api.Backup); ok && b.Spec.Cancel {
			b.Status.Phase = api.BackupCancelled
		}
	}, backupIn("b", func(b *api.Backup) {
		b.Status.Phase, b.Labels = api.BackupRunning, map[string]string{api.LabelSchedule: "nightly"}
	}))
	for _, c := range []struct {
		args, out string
		is        func(api.BackupSpec) bool
	}{
		{"pin b", "backup.stategraft.io/b pinned\n", func(s api.BackupSpec) bool { return s.Pinned }},
		{"pin b", "backup.stategraft.io/b is pinned already\n", func(s api.BackupSpec) bool { return s.Pinned }},
		{"unpin backup/b", "backup.stategraft.io/b unpinned\n", func(s api.BackupSpec) bool { return !s.Pinned }},
		{"unpin b", "backup.stategraft.io/b is not pinned\n", func(s api.BackupSpec) bool { return !s.Pinned }},
		{"suspend 20261130-030000-m0a1b2c3d-b", "backup.stategraft.io/b suspended\n", func(s api.BackupSpec) bool { return s.Suspend }},
		{"suspend b", "backup.stategraft.io/b is suspended already\n", func(s api.BackupSpec) bool { return s.Suspend }},
		{"resume backup.stategraft.io/b", "backup.stategraft.io/b resumed\n", func(s api.BackupSpec) bool { return !s.Suspend }},
		{"resume b", "backup.stategraft.io/b is not suspended\n", func(s api.BackupSpec) bool { return !s.Suspend }},
		{"cancel sgb/b", "backup.stategraft.io/b cancelled\n", func(s api.BackupSpec) bool { return s.Cancel }},
	} {
		out, _, err := run(nil, append([]string{"backup", "-n", "ns", "--kubeconfig", kubeconfig}, strings.Fields(c.args)...)...)
		if err != nil || out != c.out || !c.is(s.backups()[0].Spec) {
			t.Errorf("%s: %v, %q, %+v", c.args, err, out, s.backups()[0].Spec)
		}
	}
	for args, want := range map[string]string{"list": "b      Cancelled   differential", "list -A": "ns          b", "list -o name": "backup.stategraft.io/b\n", "list -o json": `"kind": "BackupList"`, "list -o wide": "NAME IN STORAGE",
		"list --schedule nightly -o name": "backup.stategraft.io/b\n", "list -l stategraft.io/schedule=nightly": "b ", "show b": "What to do next", "show b -o yaml": "kind: Backup"} {
		out, _, err := run(nil, append([]string{"backup", "-n", "ns", "--kubeconfig", kubeconfig}, strings.Fields(args)...)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, %q", args, err, out)
		}
	}
	if out, notes, err := run(nil, "backup", "list", "--schedule", "weekly", "-n", "ns", "--kubeconfig", kubeconfig); err == nil || errors.Is(err, errRefused) || err.Error() != "there is no BackupSchedule weekly in namespace ns, nor a Backup of one" || out != "" || notes != "" {
		t.Errorf("%v, %q, %q", err, out, notes)
	}
}

// What is asked to be cancelled may still become complete, and is not said to be
// cancelled before it is.
func TestBackupCancelSays(t *testing.T) {
	for phase, want := range map[api.BackupPhase]string{
		api.BackupRunning:   "backup.stategraft.io/b is asked to be cancelled: pods that upload finish\n",
		api.BackupCancelled: "backup.stategraft.io/b cancelled\n",
		api.BackupComplete:  "backup.stategraft.io/b was over before it could be cancelled (Complete)\n",
	} {
		_, kubeconfig := keepingServer(t, func(o client.Object) {
			if b, ok := o.(*api.Backup); ok && b.Spec.Cancel {
				b.Status.Phase, b.Status.Message = phase, "seen"
			}
		}, backupIn("b", func(b *api.Backup) { b.Status.Phase = api.BackupRunning }))
		out, notes, err := run(nil, "backup", "cancel", "b", "-n", "ns", "--kubeconfig", kubeconfig)
		if err != nil || out != want || strings.Contains(notes, "backup wait b -n ns") != (phase == api.BackupRunning) {
			t.Errorf("%s: %v, %q, %q", phase, err, out, notes)
		}
	}
}

// Nobody acts on a cancellation: that is said, with what to do.
func TestBackupCancelUnheard(t *testing.T) {
	defer func(was time.Duration) { actsWithin = was }(actsWithin)
	actsWithin = 100 * time.Millisecond
	_, kubeconfig := keepingServer(t, nil, backupIn("b", func(b *api.Backup) { b.Status.Phase = api.BackupRunning }))
	_, _, err := run(nil, "backup", "cancel", "b", "-n", "ns", "--kubeconfig", kubeconfig)
	if err == nil || !strings.Contains(err.Error(), "nobody has acted on it for 100ms: see kubectl stategraft check") {
		t.Error(err)
	}
}

// A list that is printed can be applied: each object in it says what it is, and the API
// group's own types read it.
func TestBackupListApplies(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	_, kubeconfig := keepingServer(t, nil, backupIn("a", nil), backupIn("b", func(b *api.Backup) {
		b.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationApply}}
	}))
	for _, output := range []string{"json", "yaml"} {
		out, _, err := run(nil, "backup", "list", "-o", output, "-n", "ns", "--kubeconfig", kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.YAMLToJSON([]byte(out))
		if err != nil {
			t.Fatal(err)
		}
		read, kind, err := decoder.Decode(text, nil, nil)
		list, ok := read.(*api.BackupList)
		if err != nil || !ok || *kind != (schema.GroupVersionKind{Group: api.Group, Version: "v1alpha1", Kind: "BackupList"}) || len(list.Items) != 2 {
			t.Fatalf("%s: %v, %v, %s", output, err, kind, out)
		}
		for _, b := range list.Items {
			if b.Kind != "Backup" || b.APIVersion != api.GroupVersion.String() || b.ManagedFields != nil || b.Spec.Pods == nil {
				t.Errorf("%s: %+v", output, b)
			}
		}
	}
}

// The cluster has no Backups, or a right is lacking: one sentence, with the remedy.
func TestBackupNotServed(t *testing.T) {
	_, old := restoringServer(t, nil) // which knows Restores only
	s, kubeconfig := keepingServer(t, nil)
	s.forbidden = "backups"
	for _, line := range []string{"backup statefulset/db", "backup sts/db --dry-run", "backup sts/db --wait", "backup list", "backup list -A", "backup show x", "backup wait x", "backup cancel x", "backup pin x", "backup delete x"} {
		_, _, err := run(nil, append(strings.Fields(line), "-n", "ns", "--kubeconfig", old)...)
		if err == nil || !strings.HasPrefix(err.Error(), "this cluster has no Backups (the CustomResourceDefinition backups.stategraft.io is missing): install Stategraft or upgrade it") {
			t.Errorf("%s: %v", line, err)
		}
		_, _, err = run(nil, append(strings.Fields(line), "-n", "ns", "--kubeconfig", kubeconfig)...)
		if err == nil || !strings.HasPrefix(err.Error(), "you have no right to ") || !strings.Contains(err.Error(), "backups.stategraft.io") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// Restores go by names of the storage; the name of a Backup is one too, and it is said
// what it stands for.
func TestRestoreOfBackup(t *testing.T) {
	for _, c := range []struct{ backup, flags, want, said string }{
		{"b", "", "20261130-030000-m0a1b2c3d-b", "Backup b is 20261130-030000-m0a1b2c3d-b in the storage.\n"},
		{"20261130-030000-m0a1b2c3d-b", "", "20261130-030000-m0a1b2c3d-b", ""},
		{"part", "", "20261130-030000-m0a1b2c3d-part", "Backup part is not complete (Partial: db-1 has gone).\n"},
		{"other", "", "other", ""},
		{"latest", "", "latest", ""},
		{"2026-11-30T08:00:00Z", "", "2026-11-30T08:00:00Z", ""},
		{"b", "--mode remote --source-prefix elsewhere", "b", ""},
		{"b", "--mode remote --source-prefix ns_ring", "20261130-030000-m0a1b2c3d-b", "in the storage.\n"},
		{"b", "--mode remote --source-cluster ns/ring", "20261130-030000-m0a1b2c3d-b", "in the storage.\n"},
	} {
		var made *api.Restore
		s, _ := keepingServer(t, nil, append(podsOfRing(), backupIn("b", func(b *api.Backup) { b.Status.Prefix = "ns_ring" }),
			backupIn("part", func(b *api.Backup) { b.Status.Phase, b.Status.Message = api.BackupPartial, "db-1 has gone" }))...)
		kubeconfig := withRestores(t, s, func(r *api.Restore) { made = r })
		args := append([]string{"restore", "pod/db-0", "--yes", "--backup", c.backup, "-n", "ns", "--kubeconfig", kubeconfig}, strings.Fields(c.flags)...)
		_, notes, err := run(nil, args...)
		if err != nil || made == nil || made.Spec.Backup != c.want || !strings.Contains(notes, c.said) || c.said == "" && strings.Contains(notes, "Backup") {
			t.Errorf("%s %s: %v, %+v, %q", c.backup, c.flags, err, made, notes)
		}
	}
}

// The names of Backups are completed where they can be meant.
func TestBackupCompletes(t *testing.T) {
	_, kubeconfig := keepingServer(t, nil, append(podsOfRing(), backupIn("b1", nil), backupIn("b2", func(b *api.Backup) { b.Status.Phase = api.BackupRunning }),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}})...)
	for line, want := range map[string]string{
		"backup show b":         "b1\nb2\n",
		"backup wait ":          "b2\n",
		"backup cancel ":        "b2\n",
		"backup delete b1":      "b1\n",
		"backup pod/":           "pod/db-0\npod/db-1\n",
		"backup --type ":        "differential\nfull\n",
		"backup -n ":            "ns\n",
		"restore --backup ":     "latest\nb1\n",
		"status -o ":            "json\nyaml\nwide\n",
		"backup list --output ": "json\nyaml\nwide\nname\n",
	} {
		words := strings.Split(line, " ")
		args := append([]string{"__complete", words[0], "-n", "ns", "--kubeconfig", kubeconfig}, words[1:]...)
		out, _, err := run(nil, args...)
		got, _, _ := strings.Cut(out, ":")
		if err != nil || got != want {
			t.Errorf("%s: %v, %q, want %q", line, err, got, want)
		}
	}
}
