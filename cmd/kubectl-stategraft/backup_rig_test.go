package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/test/cluster"
)

// TestBackupOnControlPlane asks a real API server for Backups, by the command as users
// have it: what is written passes its rules. The test plays the controller.
func TestBackupOnControlPlane(t *testing.T) {
	if os.Getenv(cluster.EnabledEnv) != "1" {
		t.Skipf("needs a real control plane: set %s=1, after `go run ./test/cluster/cmd/rig build`", cluster.EnabledEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cp, err := cluster.Start(ctx, cluster.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	binary := build(t)
	try := func(args string, status int, parts ...string) string {
		t.Helper()
		var out, notes bytes.Buffer
		c := exec.CommandContext(ctx, binary, append(strings.Fields(args), "--kubeconfig", cp.Kubeconfig(), "-n", "default")...)
		c.Stdout, c.Stderr = &out, &notes
		var exit *exec.ExitError
		if err := c.Run(); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if c.ProcessState.ExitCode() != status {
			t.Errorf("%s: status %d, want %d: %s %s", args, c.ProcessState.ExitCode(), status, &out, &notes)
		}
		for _, part := range parts {
			if !strings.Contains(out.String()+notes.String(), part) {
				t.Errorf("%s: no %q in\n%s%s", args, part, &out, &notes)
			}
		}
		return out.String()
	}
	kubectl := func(in string, args ...string) {
		t.Helper()
		if out, err := cp.Kubectl(ctx, strings.NewReader(in), args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	kubectl(ringManifest, "apply", "-f", "-")
	kubectl("", "wait", "--for=create", "--timeout=180s", "pod/db-0", "pod/db-1")
	for _, line := range []string{"backup list", "backup statefulset/db", "status", "backup delete x"} {
		try(line, 2, "this cluster has no Backups (the CustomResourceDefinition backups.stategraft.io is missing)")
	}
	crds, err := deploy.Pick(deploy.SelfSigned, "CustomResourceDefinition")
	if err != nil {
		t.Fatal(err)
	}
	kubectl(string(crds), "apply", "--server-side", "-f", "-")
	kubectl("", "wait", "--for=condition=Established", "--timeout=180s", "crd/backups.stategraft.io", "crd/backupschedules.stategraft.io", "crd/restores.stategraft.io")
	awaitKinds(t, ctx, cp, "backups", "backupschedules", "restores")

	c, err := ask.New(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	finished := func(name string) {
		t.Helper()
		b := &api.Backup{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, b); err != nil {
			t.Fatal(err)
		}
		now := metav1.Now()
		b.Status = api.BackupStatus{ObservedGeneration: b.Generation, Name: b.StorageName(), Prefix: "default_db", Phase: api.BackupComplete, Started: &now, Finished: &now,
			Pods:       []api.PodBackup{{Name: "db-0", Phase: api.PodBackupComplete, Objects: 3, Bytes: 9}},
			Conditions: []metav1.Condition{{Type: api.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Accepted", LastTransitionTime: now}}}
		if err := c.Status().Update(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	try("backup sts/db --name a --type full --parallel 1 --timeout 90m --retries 0 --deletion-policy delete", 0, "backup.stategraft.io/a created")
	try("backup sts/db --name b", 0, "created")
	try("backup sts/db --name b", 2, "there is a Backup b in namespace default already")
	try("backup suspend a", 0, "a suspended")
	try("backup resume a", 0, "a resumed")
	for _, name := range []string{"a", "b"} {
		finished(name)
	}
	try("backup pin a", 0, "a pinned")
	try("backup delete a --data --yes", 1, "is pinned, and its data are not deleted")
	try("backup unpin a", 0, "a unpinned")
	try("backup cancel a", 2, "is over (Complete)")
	try("backup show a", 0, "What to do next", "restore --backup a statefulset/db -n default")
	try("backup wait b", 0, "Complete")
	// What is listed can be applied, here and where the objects are not.
	kubectl(try("backup list -o yaml", 0, "kind: BackupList"), "apply", "-f", "-")
	list := try("backup list -o json", 0)
	list = strings.Replace(list, `"name": "a"`, `"name": "c"`, 1)
	try("backup delete b", 0, "b deleted; its data stay in the storage as")
	try("backup delete a --wait --timeout 5s --yes", 2, "the Backup a is not gone after 5s")
	b := &api.Backup{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "a"}, b); err != nil || b.DeletionTimestamp.IsZero() || len(b.Finalizers) != 1 || b.Keeps() {
		t.Errorf("%v, %+v", err, b)
	}
	try("backup delete a --keep-data", 0, "its data stay")
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "a"}, b); err != nil || !b.Keeps() {
		t.Errorf("%v, %+v", err, b.Spec)
	}
	kubectl(list, "apply", "-f", "-")
	try("backup list", 0, "b ", "c ")
	try("status", 0, "Namespace default is not labelled, and new pods of it get no sidecar")
	try("status --check", 1, "of which no backup is made")
	try("sync", 2, "kubectl label namespace default stategraft.io/inject=enabled")
	kubectl("", "label", "namespace", "default", api.LabelInject+"="+api.InjectEnabled)
	try("sync", 2, "there is no ConfigMap stategraft-catalogue in namespace default, which the controller makes")
	try("status -A", 0, "db-0", "missing")
}
