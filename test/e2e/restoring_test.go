package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/images"
)

// One pod of three is asked for by an annotation on the live pod: it goes back to
// what it had, the others serve on.
func TestRestoreOfOnePodByAnnotation(t *testing.T) {
	t.Parallel()
	e, ctx := restoring(t, 20*time.Minute)
	const rows, nodes = 3_000, 3
	step := stepper(t)
	c, err := e.Cassandra(ctx, "onepod", Setup{Replicas: nodes, Change: func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	}})
	step("ready", err)
	step("written", c.Write(ctx, "once", 1, 0, rows))
	before, err := c.Read(ctx, "once")
	step("read", err)
	identities, err := c.identities(ctx, nodes)
	step("identified", err)
	step("backed up", c.backups(ctx, "e2e-000001", nodes))
	// Rows of one copy: those of the pod that is restored are lost again.
	step("written after that", c.Write(ctx, "once", 1, rows, rows))
	_, err = e.Kubectl(ctx, nil, "-n", c.Namespace, "annotate", "pod", c.Pod(1), api.AnnotationRestore+"=e2e-000001")
	step("asked", err)
	asked := time.Now()
	r, err := c.onlyRestore(ctx, time.Minute)
	step("object made", err)
	if !slices.Equal(r.Spec.Pods.Names, []string{c.Pod(1)}) || r.Spec.Backup != "e2e-000001" {
		t.Errorf("the annotation became %+v", r.Spec)
	}
	r, err = c.Restored(ctx, r.Name, 5*time.Minute)
	step("restored", err)
	took := time.Since(asked)
	after, err := c.Read(ctx, "once")
	step("read", err)
	if after.Count <= rows || after.Count >= 2*rows {
		t.Errorf("%d rows after one of three was set back from %d, of %d that were there at the backup", after.Count, 2*rows, rows)
	}
	_, err = c.CQL(ctx, 0, cqlDelete("once", rows, 2*rows))
	step("later rows deleted", err)
	if kept, err := c.Read(ctx, "once"); err != nil || kept != before {
		t.Errorf("of the rows at the backup there are %+v, want %+v (%v)", kept, before, err)
	}
	now, err := c.identities(ctx, nodes)
	step("identified", err)
	if !slices.Equal(now, identities) {
		t.Errorf("the nodes were\n%s\nand are\n%s", strings.Join(identities, "\n"), strings.Join(now, "\n"))
	}
	if err := c.Once(r, 1); err != nil {
		t.Error(err)
	}
	for _, i := range []int{0, 2} {
		if done, err := c.Memory(i); err != nil || len(done) > 0 {
			t.Errorf("node %d was restored too: %+v (%v)", i, done, err)
		}
	}
	figure(t, "%d rows of the backup back, %d of its later ones lost, ids and tokens the same; %s from annotation to Ready", before.Count, 2*rows-after.Count, took.Round(time.Second))
}

// A whole cluster goes back to its newest backup, asked for on the command line,
// and is set back again from what it had before that.
func TestRestoreOfClusterAndUndo(t *testing.T) {
	t.Parallel()
	e, ctx := restoring(t, 25*time.Minute)
	const rows, nodes = 3_000, 3
	step := stepper(t)
	c, err := e.Cassandra(ctx, "whole", Setup{Replicas: nodes, Policy: appsv1.OrderedReadyPodManagement})
	step("ready", err)
	step("budget", e.Apply(ctx, c.Namespace, "budget.yaml", map[string]string{"NAME": c.Name()}))
	step("written", c.Write(ctx, "e2e", nodes, 0, rows))
	before, err := c.Read(ctx, "e2e")
	step("read", err)
	identities, err := c.identities(ctx, nodes)
	step("identified", err)
	step("backed up", c.backups(ctx, "e2e-000001", nodes))
	step("written after that", c.Write(ctx, "e2e", nodes, rows, 500))
	_, err = c.CQL(ctx, 0, "CREATE TABLE e2e.later (k int PRIMARY KEY)")
	step("table made after that", err)
	changed, err := c.Read(ctx, "e2e")
	step("read", err)

	out, err := e.Stategraft(ctx, "restore", "-n", c.Namespace, "-l", "app="+c.Name(), "--backup", "latest", "--dry-run")
	step("planned", err)
	t.Log(out)
	if !strings.Contains(out, "e2e-000001") || !strings.Contains(out, c.Pod(2)) {
		t.Errorf("the plan says\n%s", out)
	}
	out, err = e.Stategraft(ctx, "restore", "-n", c.Namespace, "-l", "app="+c.Name(), "--backup", "latest", "--name", "back", "--yes", "--wait")
	t.Log(out)
	step("restored", err)
	r, err := c.Restored(ctx, "back", 10*time.Minute)
	step("ready", err)
	if got, err := c.Read(ctx, "e2e"); err != nil || got != before {
		t.Errorf("restored %+v, want %+v (%v)", got, before, err)
	}
	if err := c.Once(r, 0, 1, 2); err != nil {
		t.Error(err)
	}
	now, err := c.identities(ctx, nodes)
	step("identified", err)
	if !slices.Equal(now, identities) {
		t.Errorf("the nodes were\n%s\nand are\n%s", strings.Join(identities, "\n"), strings.Join(now, "\n"))
	}

	out, err = e.Stategraft(ctx, "restore", "-n", c.Namespace, "undo", "back", "--name", "forth", "--yes", "--wait")
	t.Log(out)
	step("undone", err)
	u, err := c.Restored(ctx, "forth", 10*time.Minute)
	step("ready", err)
	if got, err := c.Read(ctx, "e2e"); err != nil || got != changed {
		t.Errorf("after undo %+v, want %+v (%v)", got, changed, err)
	}
	if err := c.Once(u, 0, 1, 2); err != nil {
		t.Error(err)
	}
	if _, err := c.CQL(ctx, 0, "SELECT * FROM e2e.later"); err != nil {
		t.Errorf("the table made after the backup is not back: %v", err)
	}
	figure(t, "%d rows back, then %d; ids and tokens the same; OrderedReady, a budget of 1", before.Count, changed.Count)
}

// A cluster of other names in another namespace gets the data and the tokens.
func TestRestoreIntoAnotherNamespace(t *testing.T) {
	t.Parallel()
	e, ctx := restoring(t, 30*time.Minute)
	const rows, nodes = 3_000, 3
	step := stepper(t)
	from, err := e.Cassandra(ctx, "origin", Setup{Replicas: nodes})
	step("ready", err)
	for keyspace, copies := range map[string]int{"once": 1, "peers": nodes} {
		step("written", from.Write(ctx, keyspace, copies, 0, rows))
	}
	before, err := from.Read(ctx, "once")
	step("read", err)
	identities, err := from.identities(ctx, nodes)
	step("identified", err)
	step("backed up", from.backups(ctx, "e2e-000001", nodes))

	to, err := e.Cassandra(ctx, "copy", Setup{Name: "ring", Replicas: nodes})
	step("copy ready", err)
	prefix := from.Namespace
	step("asked", to.Asked(ctx, "clone", api.RestoreSpec{Backup: "latest", Pods: to.Of(), Mode: api.Remote, Source: &api.RestoreSource{Prefix: &prefix}}))
	if _, err := to.Until(ctx, "clone", 10*time.Minute, "joining", func(r *api.Restore) bool {
		at := r.Status.Pod(to.Pod(1))
		return at != nil && at.Phase == api.PodJoining || r.Status.Phase == api.RestoreCompleted
	}); err != nil {
		t.Fatal(err)
	}
	// Once more before it has joined.
	step("deleted by hand", e.DeletePod(ctx, to.Namespace, to.Pod(1)))
	r, err := to.Restored(ctx, "clone", 15*time.Minute)
	step("restored", err)
	for _, keyspace := range []string{"once", "peers"} {
		if got, err := to.Read(ctx, keyspace); err != nil || got != before {
			t.Errorf("restored in %s: %+v, want %+v (%v)", keyspace, got, before, err)
		}
	}
	now, err := to.identities(ctx, nodes)
	step("identified", err)
	for i := range nodes {
		node := r.Status.Pod(to.Pod(i)).Node
		at := slices.Index([]string{from.Pod(0), from.Pod(1), from.Pod(2)}, node)
		if at < 0 || tokens(now[i]) == "" || tokens(now[i]) != tokens(identities[at]) {
			t.Errorf("%s got the data of %q, and has the tokens\n%s", to.Pod(i), node, now[i])
		}
	}
	if err := to.Once(r, 0, 1, 2); err != nil {
		t.Error(err)
	}
	step("restarted", e.DeletePod(ctx, to.Namespace, to.Pod(0)))
	step("ready", to.AllReady(ctx, readyLimit))
	if got, err := to.Read(ctx, "once"); err != nil || got != before {
		t.Errorf("after a restart %+v, want %+v (%v)", got, before, err)
	}
	figure(t, "%d rows of each keyspace in ring-0…2 of namespace copy, with the tokens of cassandra-0…2 of namespace origin", before.Count)
}

// No sidecar answers, as no container of the pods starts: what is in the bucket is
// found all the same, and the restore happens once the pods can start.
func TestRestoreWithAllDown(t *testing.T) {
	t.Parallel()
	e, ctx := restoring(t, 15*time.Minute)
	const rows = 2_000
	step := stepper(t)
	c, err := e.Cassandra(ctx, "down", Setup{})
	step("ready", err)
	step("written", c.Write(ctx, "e2e", 1, 0, rows))
	before, err := c.Read(ctx, "e2e")
	step("read", err)
	step("backed up", c.backups(ctx, "e2e-000001", 1))
	_, err = c.CQL(ctx, 0, "TRUNCATE e2e.rows")
	step("truncated", err)
	patch := func(containers string) {
		t.Helper()
		_, err := e.Kubectl(ctx, nil, "-n", c.Namespace, "patch", "statefulset", c.Name(), "-p", `{"spec":{"template":{"spec":{"initContainers":`+containers+`}}}}`)
		step("template changed", err)
	}
	patch(`[{"name":"broken","image":"` + images.Cassandra + `","command":["false"]}]`)
	_, err = c.Await(ctx, 2*time.Minute, "stuck", func(pod *corev1.Pod) bool { return container(pod, "broken").RestartCount > 0 })
	step("stuck", err)

	step("asked", c.Asked(ctx, "back", api.RestoreSpec{Backup: "latest", Pods: c.Of()}))
	r, err := c.Until(ctx, "back", 4*time.Minute, "past its checks", func(r *api.Restore) bool { return len(r.Status.Pending) > 0 })
	step("checked", err)
	if at := r.Status.Pods[0]; r.Status.Backup != "e2e-000001" || at.BytesTotal == 0 {
		t.Errorf("found in the bucket: %+v", r.Status)
	}
	patch("null")
	// A StatefulSet does not replace a pod that never was ready by itself.
	step("deleted by hand", e.DeletePod(ctx, c.Namespace, c.Pod(0)))
	r, err = c.Restored(ctx, "back", 5*time.Minute)
	step("restored", err)
	if got, err := c.Read(ctx, "e2e"); err != nil || got != before {
		t.Errorf("restored %+v, want %+v (%v)", got, before, err)
	}
	if err := c.Once(r, 0); err != nil {
		t.Error(err)
	}
	pods, err := e.Client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Errorf("%d pods are left (%v)", len(pods.Items), err)
	}
	figure(t, "found in the bucket with no container of the pod running; %d rows back", before.Count)
}
