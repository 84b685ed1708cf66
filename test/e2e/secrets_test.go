package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// With a password on JMX and one on CQL, both from Secrets, a node is backed up
// and restored, and no log has them.
func TestPasswords(t *testing.T) {
	t.Parallel()
	e, ctx := scenario(t, 10*time.Minute)
	step := stepper(t)
	const cql, jmx = "e2e-cql-password", "e2e-jmx-password"
	c, err := e.Cassandra(ctx, "passwords", Setup{
		User: "cassandra", Password: "cassandra",
		Annotations: map[string]string{api.AnnotationCQLSecret: "login", api.AnnotationJMXSecret: "jmx"},
		Secrets: map[string]map[string]string{
			"login": {"username": "e2e", "password": cql},
			"jmx":   {"username": "e2e", "password": jmx},
		},
		Change: func(set *appsv1.StatefulSet) {
			withJMXPassword(set)
			withCQLPassword(set)
		},
	})
	step("ready", err)
	for deadline := time.Now().Add(patient(time.Minute)); ; time.Sleep(time.Second) {
		_, err = c.CQL(ctx, 0, "CREATE ROLE e2e WITH PASSWORD = '"+cql+"' AND LOGIN = true AND SUPERUSER = true")
		if err == nil || time.Now().After(deadline) {
			break
		}
	}
	step("role made", err)
	c.setup.User, c.setup.Password = "e2e", cql
	if _, err := e.Exec(ctx, c.Namespace, pod(0), "cassandra", "", "cqlsh", "-e", "SELECT key FROM system.local"); err == nil {
		t.Error("CQL works without a password")
	}
	if _, err := e.Exec(ctx, c.Namespace, pod(0), "cassandra", "", "nodetool", "version"); err == nil {
		t.Error("nodetool works without a password")
	}
	backUpAndRestore(ctx, t, c, c.again)
	for _, name := range []string{patches.ContainerAgent, patches.ContainerSnapshot, patches.ContainerMedusa, patches.ContainerSetup, patches.ContainerRestore} {
		log := c.Log(ctx, name)
		for _, secret := range []string{cql, jmx, secretKey} {
			if strings.Contains(log, secret) {
				t.Errorf("the log of %s has the secret %s in it", name, secret)
			}
		}
	}
}

// withCQLPassword has the database ask for one on CQL: at first cassandra,
// cassandra.
func withCQLPassword(set *appsv1.StatefulSet) {
	c := &set.Spec.Template.Spec.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: "CASSANDRA_AUTHENTICATOR", Value: "PasswordAuthenticator"},
		corev1.EnvVar{Name: "CASSANDRA_AUTHORIZER", Value: "CassandraAuthorizer"})
	at := slices.IndexFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == "JVM_EXTRA_OPTS" })
	c.Env[at].Value += " -Dcassandra.superuser_setup_delay_ms=0"
}

// again restores on the volume that is there.
func (c *Cassandra) again(ctx context.Context, backup string) error {
	return c.Restore(ctx, backup, readyLimit)
}

// anew restores on a fresh volume.
func (c *Cassandra) anew(ctx context.Context, backup string) error { return c.Lose(ctx, backup, 1) }

// backUpAndRestore writes rows, backs them up, loses and restores them; then it
// restarts the pod, which must not restore them once more.
func backUpAndRestore(ctx context.Context, t *testing.T, c *Cassandra, restore func(context.Context, string) error) {
	t.Helper()
	const rows = 500
	step := stepper(t)
	step("written", c.Write(ctx, "e2e", 1, 0, rows))
	before, err := c.Read(ctx, "e2e")
	step("read", err)
	backup, err := c.Backup(ctx, 0, "e2e-000001")
	step("backed up", err)
	if backup.Status != "SUCCESS" || backup.Objects == 0 || before.Count != rows {
		t.Fatalf("%d rows, the backup: %+v", before.Count, backup)
	}
	_, err = c.CQL(ctx, 0, "TRUNCATE e2e.rows")
	step("truncated", err)
	step("restored", restore(ctx, "e2e-000001"))
	after, err := c.Read(ctx, "e2e")
	step("read", err)
	if after != before {
		t.Fatalf("restored %+v, want %+v", after, before)
	}
	step("written after the restore", c.Write(ctx, "e2e", 1, rows, 1))
	cycle, err := c.Cycle(ctx)
	step("ready again", err)
	again, err := c.Read(ctx, "e2e")
	step("read", err)
	if again.Count != rows+1 {
		t.Fatalf("after a restart %d rows, want %d", again.Count, rows+1)
	}
	figure(t, "%d rows back from %d objects, once; restarted in %s", after.Count, backup.Objects, seconds(cycle.Deleted+cycle.Ready))
}
