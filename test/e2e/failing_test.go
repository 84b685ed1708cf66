package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/patches"
)

// slowly makes a backup last, so that something can happen in its middle.
const slowly = "transfer_max_bandwidth = 200KB/s\n"

// inMiddle begins a backup and waits until it stores the rows, which takes ten
// seconds and more.
func inMiddle(ctx context.Context, c *Cassandra, name string) error {
	if err := c.Begin(ctx, 0, name); err != nil {
		return err
	}
	_, err := c.AwaitLog(ctx, patches.ContainerMedusa, 2*time.Minute, "Backing up e2e.")
	return err
}

// A sidecar that is killed in the middle of a backup, and storage that goes away
// in one, end that backup as failed; the database serves on, and the next backup
// is good.
func TestBackupInterrupted(t *testing.T) {
	t.Parallel()
	e, ctx := scenario(t, 15*time.Minute)
	step := stepper(t)
	c, err := e.Cassandra(ctx, "interrupted", Setup{OwnS3: true, Medusa: slowly})
	step("ready", err)
	step("written", c.WriteLarge(ctx, "e2e", 1, 0, 1000, 2500))
	serving := c.Serve(ctx)

	step("in the middle of a backup", inMiddle(ctx, c, "e2e-000001"))
	step("sidecar killed", c.Kill(ctx, patches.ContainerMedusa))
	now, err := c.Await(ctx, time.Minute, "Ready with the sidecar started again", func(pod *corev1.Pod) bool {
		return container(pod, patches.ContainerMedusa).RestartCount == 1 && ready(pod)
	})
	step("Ready again", err)
	if last := container(now, patches.ContainerMedusa).LastTerminationState.Terminated; last == nil || last.ExitCode != 137 {
		t.Errorf("the sidecar ended with %+v", last)
	}
	backup, err := c.Ended(ctx, 0, "e2e-000001")
	step("told as failed", err)
	if backup.Status != "FAILED" {
		t.Errorf("the backup whose sidecar was killed is %s", backup.Status)
	}

	step("in the middle of a backup", inMiddle(ctx, c, "e2e-000002"))
	_, err = e.Kubectl(ctx, nil, "-n", c.Namespace, "scale", "deployment/s3", "--replicas=0")
	step("S3 down", err)
	line, err := c.AwaitLog(ctx, patches.ContainerMedusa, 8*time.Minute, "Name: e2e-000002 Error")
	step("the backup failed", err)
	t.Log(line)
	_, err = e.Kubectl(ctx, nil, "-n", c.Namespace, "scale", "deployment/s3", "--replicas=1")
	step("S3 up", err)
	step("S3 ready", e.RolledOut(ctx, c.Namespace, "deployment/s3", 3*time.Minute))
	backup, err = c.Backup(ctx, 0, "e2e-000003")
	step("backed up", err)
	if backup.Status != "SUCCESS" || backup.Objects == 0 {
		t.Errorf("the backup after that: %+v", backup)
	}
	now, err = e.Pod(ctx, c.Namespace, pod(0))
	step("pod read", err)
	if s := container(now, "cassandra"); s.RestartCount != 0 || !ready(now) {
		t.Errorf("Ready %t, the database was restarted %d times", ready(now), s.RestartCount)
	}
	served, err := serving()
	step("served throughout", err)
	figure(t, "failed twice, then good; %d queries answered, the longest gap %.1f s", served.Queries, served.Longest)
}

// Credentials that the bucket refuses fail a backup, and say so.
func TestBackupWrongCredentials(t *testing.T) {
	t.Parallel()
	failedBackup(t, "wrong", Setup{SecretKey: "not-the-key"}, "SignatureDoesNotMatch", "403", "Forbidden", "Access Denied")
}

// A nodetool that fails, here as it knows no JMX password, fails a backup with
// what it printed.
func TestBackupNodetoolFails(t *testing.T) {
	t.Parallel()
	failedBackup(t, "nodetool", Setup{Change: withJMXPassword}, "nodetool snapshot: exit status")
}

// failedBackup makes a backup that fails for one of the reasons, while the
// database serves and the pod stays Ready.
func failedBackup(t *testing.T, namespace string, s Setup, reasons ...string) {
	t.Helper()
	e, ctx := scenario(t, 15*time.Minute)
	step := stepper(t)
	c, err := e.Cassandra(ctx, namespace, s)
	step("ready", err)
	serving := c.Serve(ctx)
	began := time.Now()
	step("backup begun", c.Begin(ctx, 0, "e2e-000001"))
	line, err := c.AwaitLog(ctx, patches.ContainerMedusa, 9*time.Minute, "Issue occurred inside handle_backup", "Failed to record backup information")
	took := time.Since(began)
	step("the backup failed", err)
	log := c.Log(ctx, patches.ContainerMedusa) + c.Log(ctx, patches.ContainerSnapshot)
	said := ""
	for _, reason := range reasons {
		if strings.Contains(log, reason) {
			said = reason
		}
	}
	if said == "" {
		t.Errorf("nothing in the logs of %q: %s\n%s", reasons, line, log)
	}
	now, err := e.Pod(ctx, c.Namespace, pod(0))
	step("pod read", err)
	for _, s := range now.Status.ContainerStatuses {
		if s.RestartCount != 0 || !s.Ready {
			t.Errorf("container %s: Ready %t, restarted %d times", s.Name, s.Ready, s.RestartCount)
		}
	}
	served, err := serving()
	step("served throughout", err)
	figure(t, "failed after %s with %q; %d queries answered, the longest gap %.1f s", seconds(took), said, served.Queries, served.Longest)
}

// withJMXPassword has the database ask for one on JMX: e2e, e2e-jmx-password.
func withJMXPassword(set *appsv1.StatefulSet) {
	c := &set.Spec.Template.Spec.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: "LOCAL_JMX", Value: "no"})
	// Java insists on a file that only its user reads, which a Secret's is not.
	c.Command = []string{"/bin/bash", "-c", `umask 077
echo "e2e e2e-jmx-password" > "$CASSANDRA_CONF/jmxremote.password"
echo "e2e readwrite" > "$CASSANDRA_CONF/jmxremote.access"
umask 022
exec docker-entrypoint.sh cassandra -f`}
}
