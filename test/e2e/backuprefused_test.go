package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// A Backup whose storage refuses the key says so while it runs and at its end, long before
// its timeout; with the right key the next one is complete.
func TestBackupRefused(t *testing.T) {
	t.Parallel()
	e, ctx := restoring(t, 20*time.Minute)
	const timeout = 15 * time.Minute
	step := stepper(t)
	c, err := e.Cassandra(ctx, "refused", Setup{SecretKey: "not-the-key"})
	step("ready", err)
	asked := time.Now()
	step("asked", c.AskBackup(ctx, "wrong", api.BackupSpec{Timeout: &metav1.Duration{Duration: timeout}}))
	const refused = "the storage refuses"
	running, err := c.BackupUntil(ctx, "wrong", 3*time.Minute, "told why it does not get on", func(b *api.Backup) bool {
		return !b.Status.Phase.Final() && strings.Contains(b.Status.Message, refused)
	})
	step("told", err)
	told := time.Since(asked)
	b, err := c.Ends(ctx, "wrong", timeout)
	step("over", err)
	took := time.Since(asked)
	if p := b.Status.Pod(c.Pod(0)); b.Status.Phase != api.BackupFailed || took > timeout/2 || p == nil || !strings.Contains(p.Message, refused) || !strings.Contains(p.Message, "403") && !strings.Contains(p.Message, "SignatureDoesNotMatch") {
		t.Errorf("after %s it is %s: %+v", took, b.Status.Phase, b.Status)
	}
	if strings.Contains(fmt.Sprintf("%+v", b.Status), "not-the-key") {
		t.Errorf("the key is told: %+v", b.Status)
	}
	_, err = e.Kubectl(ctx, nil, "-n", c.Namespace, "patch", "secret", patches.DefaultStorageSecret, "--type=merge",
		"-p", fmt.Sprintf(`{"stringData":{"credentials":"[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n"}}`, accessKey, secretKey))
	step("the right key", err)
	step("asked", c.AskBackup(ctx, "right", api.BackupSpec{Timeout: &metav1.Duration{Duration: timeout}}))
	good, err := c.Ends(ctx, "right", timeout)
	step("over", err)
	if good.Status.Phase != api.BackupComplete {
		t.Errorf("with the right key it is %s: %+v", good.Status.Phase, good.Status)
	}
	figure(t, "told after %s (%s), failed after %s; with the right key complete", told.Round(time.Second), running.Status.Message, took.Round(time.Second))
}

// What nodetool says is in the Backup that fails by it.
func TestBackupSaysWhatNodetoolSays(t *testing.T) {
	t.Parallel()
	e, ctx := restoring(t, 15*time.Minute)
	step := stepper(t)
	c, err := e.Cassandra(ctx, "unasked", Setup{Change: withJMXPassword})
	step("ready", err)
	asked := time.Now()
	step("asked", c.AskBackup(ctx, "nodetool", api.BackupSpec{}))
	b, err := c.Ends(ctx, "nodetool", 10*time.Minute)
	step("over", err)
	p := b.Status.Pod(c.Pod(0))
	if b.Status.Phase != api.BackupFailed || p == nil || !strings.Contains(p.Message, "nodetool snapshot: exit status") || strings.Contains(p.Message, "AccessController") {
		t.Fatalf("it is %s: %+v", b.Status.Phase, b.Status)
	}
	figure(t, "failed after %s: %s", time.Since(asked).Round(time.Second), p.Message)
}
