package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/cluster"
)

// backupFault is something that happens to a backup.
type backupFault struct {
	name   string
	happen func(ctx context.Context, c *Cassandra, backup string) error
	// ends are the phases that it may end in.
	ends []api.BackupPhase
}

// Whatever is killed, restarted or down while a backup runs: it ends, within its
// timeout, as what it is; and what says Complete can be restored.
func TestBackupThroughFaults(t *testing.T) {
	e, ctx := restoring(t, 50*time.Minute)
	const timeout = 6 * time.Minute
	step := stepper(t)
	c, err := e.Cassandra(ctx, "faults", Setup{OwnS3: true, Medusa: slowly}) // more than ten seconds to upload
	step("ready", err)
	step("written", c.WriteLarge(ctx, "e2e", 1, 0, 1000, 2500))
	before, err := c.Read(ctx, "e2e")
	step("read", err)
	var last string
	said := map[api.BackupPhase]int{}
	all := backupFaults()
	for i, f := range all {
		name := fmt.Sprintf("b%02d", i)
		asked := time.Now()
		step("asked", c.AskBackup(ctx, name, api.BackupSpec{Type: api.BackupFull, Timeout: &metav1.Duration{Duration: timeout}}))
		if err := f.happen(ctx, c, name); err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		b, err := c.Ends(ctx, name, timeout+time.Minute)
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		took := time.Since(asked).Round(time.Second)
		t.Logf("%s: %s after %s: %s; %+v", f.name, b.Status.Phase, took, b.Status.Message, b.Status.Pods)
		said[b.Status.Phase]++
		if !slices.Contains(f.ends, b.Status.Phase) {
			t.Errorf("%s: it is %s, want one of %v", f.name, b.Status.Phase, f.ends)
		}
		if b.Status.Phase == api.BackupComplete {
			last = b.Status.Name
			if b.Status.Pods[0].Objects == 0 || b.Status.Bytes < 2_000_000 {
				t.Errorf("%s: it says it is complete with %+v", f.name, b.Status.Pods)
			}
		}
		step("ready", c.AllReady(ctx, 5*time.Minute))
	}
	step("no limit any more", c.unlimited(ctx))
	step("asked", c.Asked(ctx, "kept", api.RestoreSpec{Backup: last, Pods: c.Of()}))
	_, err = c.Restored(ctx, "kept", 8*time.Minute)
	step("restored", err)
	if after, err := c.Read(ctx, "e2e"); err != nil || after != before {
		t.Errorf("restored %+v, want %+v (%v)", after, before, err)
	}
	figure(t, "%d faults: %v, each within its timeout; the last complete one restored", len(all), said)
}

// A pod that cannot be scheduled belongs to the backup: without it that is not complete,
// and it ends in time.
func TestBackupOfPodThatNeverComes(t *testing.T) {
	t.Parallel()
	e, ctx := restoring(t, 15*time.Minute)
	step := stepper(t)
	// There is one node.
	c, err := e.Cassandra(ctx, "never", Setup{Annotations: map[string]string{api.AnnotationSpread: "host"}})
	step("ready", err)
	_, err = e.Kubectl(ctx, nil, "-n", c.Namespace, "scale", c.object(), "--replicas=2")
	step("scaled", err)
	const timeout = 90 * time.Second
	asked := time.Now()
	step("asked", c.AskBackup(ctx, "never", api.BackupSpec{Timeout: &metav1.Duration{Duration: timeout}}))
	b, err := c.Ends(ctx, "never", timeout+time.Minute)
	step("over", err)
	there, absent := b.Status.Pod(c.Pod(0)), b.Status.Pod(c.Pod(1))
	if b.Status.Phase != api.BackupPartial || there == nil || there.Phase != api.PodBackupComplete || absent == nil || absent.Phase == api.PodBackupComplete {
		t.Errorf("with a pod that never comes it is %s: %+v", b.Status.Phase, b.Status.Pods)
	}
	figure(t, "%s after %s, of %s: %s", b.Status.Phase, time.Since(asked).Round(time.Second), timeout, b.Status.Message)
}

func backupFaults() []backupFault {
	complete := []api.BackupPhase{api.BackupComplete}
	crash := func(name string, after func(*api.Backup) bool) backupFault {
		return backupFault{"controller killed: " + name, func(ctx context.Context, c *Cassandra, backup string) error {
			if _, err := c.BackupUntil(ctx, backup, 2*time.Minute, name, after); err != nil {
				return err
			}
			return errors.Join(c.e.Controller.Kill(), c.e.Controller.Start(ctx))
		}, complete}
	}
	// The upload of the rows has begun.
	uploading := func(ctx context.Context, c *Cassandra, backup string) error {
		if _, err := c.BackupUntil(ctx, backup, 2*time.Minute, "running", func(b *api.Backup) bool {
			return len(b.Status.Pods) > 0 && b.Status.Pods[0].Phase == api.PodBackupRunning
		}); err != nil {
			return err
		}
		time.Sleep(5 * time.Second)
		return nil
	}
	during := func(name string, ends []api.BackupPhase, do func(ctx context.Context, c *Cassandra) error) backupFault {
		return backupFault{name, func(ctx context.Context, c *Cassandra, backup string) error {
			if err := uploading(ctx, c, backup); err != nil {
				return err
			}
			return do(ctx, c)
		}, ends}
	}
	return []backupFault{
		{"controller killed: at once", func(ctx context.Context, c *Cassandra, _ string) error {
			return errors.Join(c.e.Controller.Kill(), c.e.Controller.Start(ctx))
		}, complete},
		crash("accepted", func(b *api.Backup) bool { return len(b.Status.Pods) > 0 }),
		crash("running", func(b *api.Backup) bool { return b.Status.Phase == api.BackupRunning }),
		crash("complete", func(b *api.Backup) bool { return b.Status.Phase == api.BackupComplete }),
		during("controller down until the sidecar is done", complete, func(ctx context.Context, c *Cassandra) error {
			if err := c.e.Controller.Kill(); err != nil {
				return err
			}
			time.Sleep(30 * time.Second)
			return c.e.Controller.Start(ctx)
		}),
		during("sidecar killed in mid-backup", complete, func(ctx context.Context, c *Cassandra) error {
			return c.Kill(ctx, patches.ContainerMedusa)
		}),
		during("sidecar killed, controller too", complete, func(ctx context.Context, c *Cassandra) error {
			return errors.Join(c.e.Controller.Kill(), c.Kill(ctx, patches.ContainerMedusa), c.e.Controller.Start(ctx))
		}),
		during("pod deleted in mid-backup", complete, func(ctx context.Context, c *Cassandra) error {
			return c.e.DeletePod(ctx, c.Namespace, c.Pod(0))
		}),
		during("S3 down for a minute", []api.BackupPhase{api.BackupComplete, api.BackupFailed}, func(ctx context.Context, c *Cassandra) error {
			return c.s3Down(ctx, time.Minute)
		}),
		during("API server restarted", complete, func(ctx context.Context, c *Cassandra) error {
			return c.e.Restart(ctx, cluster.APIServer)
		}),
		{"nothing", func(context.Context, *Cassandra, string) error { return nil }, complete},
	}
}

// unlimited takes slowly out of medusa.ini: at such a limit each file takes a second to
// download, however small.
func (c *Cassandra) unlimited(ctx context.Context) error {
	configs := c.e.Client.CoreV1().ConfigMaps(c.Namespace)
	config, err := configs.Get(ctx, patches.DefaultMedusaConfig, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading medusa.ini: %w", err)
	}
	config.Data["medusa.ini"] = strings.ReplaceAll(config.Data["medusa.ini"], slowly, "")
	_, err = configs.Update(ctx, config, metav1.UpdateOptions{})
	return err
}

// s3Down has the S3 server's Service lead to nobody for a while, and ends the connections
// there are. What it holds stays.
func (c *Cassandra) s3Down(ctx context.Context, lasts time.Duration) error {
	service := func(port int) error {
		_, err := c.e.Kubectl(ctx, nil, "-n", c.Namespace, "patch", "service", "s3", "--type=json",
			"-p", fmt.Sprintf(`[{"op":"replace","path":"/spec/ports/0/targetPort","value":%d}]`, port))
		return err
	}
	if err := service(9999); err != nil {
		return err
	}
	pods, err := c.e.Client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=s3"})
	if err != nil || len(pods.Items) != 1 {
		return errors.Join(fmt.Errorf("finding the S3 server: %d pods", len(pods.Items)), err)
	}
	if err := cluster.KillContainer(container(&pods.Items[0], "s3").ContainerID); err != nil {
		return err
	}
	time.Sleep(lasts)
	return service(9000)
}
