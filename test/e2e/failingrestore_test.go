package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// A restore that cannot be made keeps the database from starting, and says why
// where people look.
func TestRestoreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		setup     Setup
		container string
		reasons   []string // one of them
	}{
		{"unknown", Setup{}, patches.ContainerRestore, []string{"there is no backup e2e-000001 in the storage"}},
		{"credentials", Setup{SecretKey: "not-the-key"}, patches.ContainerRestore, []string{"SignatureDoesNotMatch", "403", "Forbidden"}},
		{"nosection", Setup{Ini: "[logging]\nlevel = INFO\n"}, patches.ContainerSetup, []string{"section [storage] is missing"}},
		{"empty", Setup{Ini: "[storage]\n"}, patches.ContainerSetup, []string{"[storage] storage_provider is missing"}},
		{"nostorage", Setup{Medusa: "host = nobody.invalid\n"}, patches.ContainerRestore, []string{"Could not connect", "EndpointConnectionError"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, ctx := scenario(t, 10*time.Minute)
			step := stepper(t)
			c.setup.NoWait = true
			c.setup.Annotations = map[string]string{api.AnnotationRestore: "e2e-000001"}
			if c.setup.Medusa != "" {
				c.setup.Ini = "[storage]\nstorage_provider = s3_compatible\nbucket_name = backups\nprefix = x\nport = 9000\nsecure = False\n" + c.setup.Medusa
			}
			cassandra, err := e.Cassandra(ctx, "refused-"+c.name, c.setup)
			step("created", err)
			message, err := refused(t, cassandra, c.container, c.reasons...)
			step("refused", err)
			figure(t, "%s: %s", c.name, message)
		})
	}
}

// refused waits until an init container has failed for one of the reasons, and
// answers its termination message, which kubectl describe shows too. The
// database must not have started.
func refused(t *testing.T, c *Cassandra, name string, reasons ...string) (string, error) {
	t.Helper()
	ended := func(pod *corev1.Pod) *corev1.ContainerStateTerminated {
		s := container(pod, name)
		if s.State.Terminated != nil {
			return s.State.Terminated
		}
		return s.LastTerminationState.Terminated
	}
	matches := func(text string) bool {
		for _, reason := range reasons {
			if strings.Contains(text, reason) {
				return true
			}
		}
		return false
	}
	var messages []string // of each try
	now, err := c.Await(t.Context(), 4*time.Minute, "refused", func(pod *corev1.Pod) bool {
		end := ended(pod)
		if end != nil && !slices.Contains(messages, end.Message) {
			messages = append(messages, end.Message)
		}
		return end != nil && end.ExitCode != 0 && matches(end.Message)
	})
	if err != nil {
		return "", fmt.Errorf("%w; it said %q", err, messages)
	}
	if s := container(now, "cassandra"); s.State.Waiting == nil || s.LastTerminationState.Terminated != nil || s.Started != nil && *s.Started {
		t.Errorf("the database has started: %+v", s)
	}
	described, err := c.e.Kubectl(t.Context(), nil, "-n", c.Namespace, "describe", "pod", pod(0))
	if err != nil {
		return "", err
	}
	if !matches(described) {
		t.Errorf("kubectl describe pod does not say %q:\n%s", reasons, described)
	}
	return ended(now).Message, nil
}

// A volume that gets full in the middle of a restore keeps the database from
// starting; with room it is restored after all.
func TestRestoreVolumeFull(t *testing.T) {
	t.Parallel()
	e, ctx := scenario(t, 15*time.Minute)
	step := stepper(t)
	// Slow enough for something to happen in its middle, and soon over afterwards.
	c, err := e.Cassandra(ctx, "full", Setup{Medusa: "transfer_max_bandwidth = 500KB/s\n", Change: func(set *appsv1.StatefulSet) {
		// A volume that is as large as it says, and goes with the pod.
		size := resource.MustParse("160Mi")
		set.Spec.VolumeClaimTemplates = nil
		set.Spec.Template.Spec.Volumes = append(set.Spec.Template.Spec.Volumes, corev1.Volume{Name: "data",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size}}})
	}})
	step("ready", err)
	step("written", c.WriteLarge(ctx, "e2e", 1, 0, 1000, 2500))
	before, err := c.Read(ctx, "e2e")
	step("read", err)
	backup, err := c.Backup(ctx, 0, "e2e-000001")
	step("backed up", err)
	if backup.Status != "SUCCESS" {
		t.Fatalf("the backup: %+v", backup)
	}
	old, err := e.Pod(ctx, c.Namespace, pod(0))
	step("pod read", err)
	step("restore asked for", c.AskRestore(ctx, "e2e-000001"))
	now, err := c.Await(ctx, readyLimit, "restoring", func(pod *corev1.Pod) bool {
		return pod.UID != old.UID && container(pod, patches.ContainerRestore).State.Running != nil
	})
	step("restore begun", err)
	// From outside, since between two tries there is no container to be in; and by nothing
	// that takes longer than the download, as reading a log may.
	volume := filepath.Join(filepath.Dir(e.VolumesDir()), "kubelet", "pods", string(now.UID), "volumes", "kubernetes.io~empty-dir", "data")
	filler := filepath.Join(volume, "filler")
	for downloaded := 0; downloaded == 0 && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		found, err := filepath.Glob(filepath.Join(volume, "medusa-restore-*", "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		downloaded = len(found)
	}
	step("in the middle of the download", context.Cause(ctx))
	step("volume filled", fill(filler))
	message, err := refused(t, c, patches.ContainerRestore, "No space left", "too little room")
	step("refused", err)
	step("room made", os.Remove(filler))
	step("restored after all", e.RolledOut(ctx, c.Namespace, "statefulset/cassandra", 5*time.Minute))
	after, err := c.Read(ctx, "e2e")
	step("read", err)
	if after != before {
		t.Errorf("restored %+v, want %+v", after, before)
	}
	figure(t, "full: %s; with room restored, %d rows", message, after.Count)
}

// fill writes a file until its volume is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return f.Close()
}
