package e2e

import (
	"testing"
	"time"
)

// What was written is back after it was lost, and only once.
func TestBackupAndRestoreOfOneNode(t *testing.T) {
	t.Parallel()
	e, ctx := scenario(t, 10*time.Minute)
	const rows = 10_000
	step := stepper(t)

	c, err := e.Cassandra(ctx, "one", Setup{})
	step("ready", err)
	step("written", c.Write(ctx, "e2e", 1, 0, rows))
	before, err := c.Read(ctx, "e2e")
	step("read", err)
	if before.Count != rows {
		t.Fatalf("%d rows were written, want %d", before.Count, rows)
	}

	backup, err := c.Backup(ctx, 0, "e2e-000001")
	step("backed up", err)
	if backup.Status != "SUCCESS" || backup.Objects == 0 || backup.Bytes == 0 {
		t.Fatalf("the backup: %+v", backup)
	}
	t.Logf("the backup: %+v", backup)
	step("strangers refused", strangersRefused(ctx, c))

	_, err = c.CQL(ctx, 0, "TRUNCATE e2e.rows")
	step("truncated", err)
	if lost, err := c.Read(ctx, "e2e"); err != nil || lost.Count != 0 {
		t.Fatalf("after TRUNCATE: %+v, %v", lost, err)
	}

	step("restored", c.Restore(ctx, "e2e-000001", readyLimit))
	after, err := c.Read(ctx, "e2e")
	step("read", err)
	if after != before {
		t.Fatalf("restored %+v, want %+v", after, before)
	}

	step("written after the restore", c.Write(ctx, "e2e", 1, rows, 1))
	step("pod gone", e.DeletePod(ctx, c.Namespace, "cassandra-0"))
	step("ready again", e.RolledOut(ctx, c.Namespace, "statefulset/cassandra", readyLimit))
	again, err := c.Read(ctx, "e2e")
	step("read", err)
	if again.Count != rows+1 {
		t.Fatalf("after a restart %d rows, want %d: it was restored again", again.Count, rows+1)
	}
	figure(t, "%d rows and their checksum back from %d objects; a later row survives a restart", after.Count, backup.Objects)
}

// A cluster that lost all its volumes is restored at once: every row is back,
// and every node is who it was.
func TestBackupAndRestoreOfThreeNodes(t *testing.T) {
	t.Parallel()
	e, ctx := scenario(t, 20*time.Minute)
	const rows, nodes = 3_000, 3
	step := stepper(t)

	c, err := e.Cassandra(ctx, "three", Setup{Replicas: nodes})
	step("ready", err)
	before := map[string]Rows{}
	for keyspace, copies := range map[string]int{"once": 1, "thrice": nodes} {
		step("written", c.Write(ctx, keyspace, copies, 0, rows))
		if before[keyspace], err = c.Read(ctx, keyspace); err != nil || before[keyspace].Count != rows {
			t.Fatalf("written in %s: %+v, %v", keyspace, before[keyspace], err)
		}
	}
	identities := make([]string, nodes)
	for i := range nodes {
		if identities[i], err = c.Identity(ctx, i); err != nil || identities[i] == "" {
			t.Fatalf("identity of node %d: %q, %v", i, identities[i], err)
		}
	}
	step("identified", nil)
	for i := range nodes {
		backup, err := c.Backup(ctx, i, "e2e-000001")
		step("backed up", err)
		if backup.Status != "SUCCESS" || backup.Objects == 0 {
			t.Fatalf("the backup of node %d: %+v", i, backup)
		}
		if i == nodes-1 && backup.Nodes != nodes {
			t.Fatalf("after the last node's, the backup is %+v", backup)
		}
	}

	step("lost and restored", c.Lose(ctx, "e2e-000001", nodes))
	for keyspace, want := range before {
		got, err := c.Read(ctx, keyspace)
		step("read", err)
		if got != want {
			t.Errorf("restored in %s: %+v, want %+v", keyspace, got, want)
		}
	}
	for i, want := range identities {
		got, err := c.Identity(ctx, i)
		if err != nil || got != want {
			t.Errorf("node %d was\n%s\nand is\n%s\n%v", i, want, got, err)
		}
	}
	step("identified", nil)
	figure(t, "%d rows of each keyspace back; host ids and %d nodes' tokens the same", rows, nodes)
}

// stepper answers a function that ends the test on an error, and logs how long
// the step has taken.
func stepper(t *testing.T) func(name string, err error) {
	last := time.Now()
	return func(name string, err error) {
		t.Helper()
		took := time.Since(last).Round(10 * time.Millisecond)
		last = time.Now()
		if err != nil {
			t.Fatalf("%s, after %s: %v", name, took, err)
		}
		t.Logf("%-28s %8s", name, took)
	}
}
