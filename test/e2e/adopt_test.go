package e2e

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
)

// adoptedLimit is how long a pod may take from being asked for until its containers run.
const adoptedLimit = 3 * time.Minute

// A cluster that ran before anybody asked is adopted, backed up and restored; until the
// restore nobody notices.
func TestAdoptRunningCluster(t *testing.T) {
	e, ctx := restoring(t, 25*time.Minute)
	const rows, nodes = 3_000, 3
	step := stepper(t)
	c, err := e.Cassandra(ctx, "adopted", Setup{Plain: true, Replicas: nodes})
	step("ready", err)
	step("written", c.Write(ctx, "e2e", nodes, 0, rows))
	before, err := c.Read(ctx, "e2e")
	step("read", err)
	identities, err := c.identities(ctx, nodes)
	step("identified", err)
	left, err := c.users(ctx, nodes)
	step("users", err)
	calm, err := c.Calm(ctx, false)
	step("watched", err)

	began := time.Now()
	step("asked", c.Adopts(ctx))
	for i := range nodes {
		_, err := c.Adopted(ctx, i, 0, adoptedLimit)
		step("adopted "+c.Pod(i), err)
	}
	took := time.Since(began)
	out, err := e.Stategraft(ctx, "-n", c.Namespace, "status")
	step("status", err)
	if strings.Count(out, "adopted") < nodes {
		t.Errorf("the status does not tell that %d pods are adopted:\n%s", nodes, out)
	}
	out, err = e.Stategraft(ctx, "-n", c.Namespace, "backup", c.object(), "--name", "first", "--wait")
	step("backed up", err)
	t.Log(out)
	b, err := c.BackupUntil(ctx, "first", time.Minute, "complete", func(b *api.Backup) bool { return b.Status.Phase == api.BackupComplete })
	step("complete", err)
	if len(b.Status.Pods) != nodes || b.Status.Objects == 0 {
		t.Errorf("the backup is of %d pods and has %d objects", len(b.Status.Pods), b.Status.Objects)
	}
	step("nothing left on the volumes", c.tidy(nodes))
	queries, written, longest, err := left()
	step("served throughout", err)
	step("nothing moved", calm())

	step("written after it", c.Write(ctx, "e2e", nodes, rows, 500))
	step("restore asked", c.Asked(ctx, "back", api.RestoreSpec{Backup: b.Status.Name, Pods: c.Of()}))
	_, err = c.Restored(ctx, "back", 10*time.Minute)
	step("restored", err)
	after, err := c.Read(ctx, "e2e")
	step("read", err)
	if after != before {
		t.Errorf("restored %+v, want %+v", after, before)
	}
	now, err := c.identities(ctx, nodes)
	step("identified", err)
	for i := range nodes {
		if now[i] != identities[i] {
			t.Errorf("node %d was\n%s\nand is\n%s", i, identities[i], now[i])
		}
		pod, err := e.Pod(ctx, c.Namespace, c.Pod(i))
		step("pod read", err)
		if adopted.Is(pod) || container(pod, patches.ContainerMedusa).State.Running == nil {
			t.Errorf("pod %s, created anew, is not injected as any other:\n%s", pod.Name, described(pod))
		}
	}
	figure(t, "%d pods adopted in %s, backed up, restored with %d rows; until then no restart, no readiness transition, 0 errors of %d queries and %d writes, longest gap %.1f s",
		nodes, took.Round(time.Second), after.Count, queries, written, longest)
}

// A single backup of a pod that has never seen Stategraft, in a namespace that is
// restricted.
func TestBackupAdopt(t *testing.T) {
	t.Parallel()
	e, ctx := restoring(t, 12*time.Minute)
	step := stepper(t)
	c, err := e.Cassandra(ctx, "single", Setup{Plain: true, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}, Change: restricted})
	step("ready", err)
	step("written", c.Write(ctx, "e2e", 1, 0, 1000))
	calm, err := c.Calm(ctx, false)
	step("watched", err)
	out, err := e.Stategraft(ctx, "-n", c.Namespace, "backup", "pod/"+c.Pod(0), "--adopt", "--wait")
	if err == nil || !strings.Contains(out, "kubectl label namespace") {
		t.Errorf("without the label: %v\n%s", err, out)
	}
	_, err = e.Kubectl(ctx, nil, "label", "namespace", c.Namespace, api.LabelInject+"="+api.InjectEnabled)
	step("labelled", err)
	out, err = e.Stategraft(ctx, "-n", c.Namespace, "adopt", "pod/"+c.Pod(0), "--dry-run")
	step("dry run", err)
	t.Log(out)
	began := time.Now()
	out, err = e.Stategraft(ctx, "-n", c.Namespace, "backup", "pod/"+c.Pod(0), "--adopt", "--wait", "--name", "now")
	step("backed up", err)
	t.Log(out)
	took := time.Since(began)
	b, err := c.BackupUntil(ctx, "now", time.Minute, "complete", func(b *api.Backup) bool { return b.Status.Phase == api.BackupComplete })
	step("complete", err)
	step("nothing moved", calm())
	out, err = e.Stategraft(ctx, "-n", c.Namespace, "restore", "--backup", "now", "pod/"+c.Pod(0), "--yes", "--wait")
	step("restored", err)
	t.Log(out)
	step("ready", c.AllReady(ctx, readyLimit))
	rows, err := c.Read(ctx, "e2e")
	step("read", err)
	if rows.Count != 1000 {
		t.Errorf("%d rows are back, not 1000", rows.Count)
	}
	figure(t, "adopted and backed up (%d objects) in %s by one command, in a restricted namespace; then restored", b.Status.Objects, took.Round(time.Second))
}

// restricted makes the pod one that the restricted Pod Security Standard accepts.
func restricted(set *appsv1.StatefulSet) {
	spec := &set.Spec.Template.Spec
	spec.SecurityContext.RunAsNonRoot = new(true)
	spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
}
