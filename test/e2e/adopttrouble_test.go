package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/cluster"
)

// What goes wrong with the containers of adoption goes by the pod, and their number is
// bounded: killed, in a backup too; out of memory; no image; a node under pressure.
func TestAdoptedThroughTrouble(t *testing.T) {
	e, ctx := restoring(t, 25*time.Minute)
	step := stepper(t)
	// Guaranteed: there the kernel would take the database first (policy.go of the
	// kubelet's qos gives each container of such a pod -997).
	c, err := e.Cassandra(ctx, "trouble", Setup{Plain: true, OwnS3: true, Replicas: 3, Medusa: slowly, Change: guaranteed})
	step("ready", err)
	step("written", c.WriteLarge(ctx, "e2e", 3, 0, 1000, 2500))
	left, err := c.users(ctx, 3)
	step("users", err)
	calm, err := c.Calm(ctx, false)
	step("watched", err)
	step("asked", c.Adopts(ctx))
	for i := range 3 {
		_, err = c.Adopted(ctx, i, 0, adoptedLimit)
		step("adopted", err)
	}

	// Each pod has its trouble: what ended before makes the wait longer.
	number, err := c.killPart(ctx, 0, patches.RoleSnapshot)
	step("snapshot killed", err)
	_, err = e.Await(ctx, c.Namespace, c.Pod(0), adoptedLimit, "adopted again", func(pod *corev1.Pod) bool {
		return up(pod) && adopted.Newest(adopted.Parts(pod), patches.RoleSnapshot).Number > number
	})
	step("adopted again", err)

	step("backup asked", c.AskBackup(ctx, "killed", api.BackupSpec{Type: api.BackupFull}))
	_, err = c.BackupUntil(ctx, "killed", 2*time.Minute, "running", func(b *api.Backup) bool {
		p := b.Status.Pod(c.Pod(0))
		return p != nil && p.Phase == api.PodBackupRunning
	})
	step("running", err)
	time.Sleep(5 * time.Second) // it uploads
	number, err = c.killPart(ctx, 0, patches.RoleMedusa)
	step("medusa killed", err)
	_, err = c.Adopted(ctx, 0, number, 2*adoptedLimit)
	step("adopted again", err)
	b, err := c.BackupUntil(ctx, "killed", 8*time.Minute, "complete", func(b *api.Backup) bool { return b.Status.Phase == api.BackupComplete })
	step("backed up all the same", err)

	exhausted, err := c.exhaust(ctx, 1)
	step("out of memory", err)
	step("no image", c.noImage(ctx, 1))
	queries, written, longest, err := left()
	step("served throughout", err)
	step("nothing moved", calm())
	pressed, err := c.pressed(ctx, 2)
	step("node under pressure", err)

	var counts []int
	// Three, and for each that ended its like and an agent; three whenever that was asked for.
	for i, most := range []int{3 + 2 + 2, 3 + 2 + 3 + 3, 3 + 2} {
		pod, err := e.Pod(ctx, c.Namespace, c.Pod(i))
		step("pod read", err)
		counts = append(counts, len(adopted.Parts(pod)))
		if counts[i] > most {
			t.Errorf("pod %s has %d containers, at most %d were due:\n%s", pod.Name, counts[i], most, described(pod))
		}
	}
	figure(t, "killed twice (backup %s, %d tries), %s, no image, %s: %v containers in all; no restart, no readiness transition, 0 errors of %d queries and %d writes, longest gap %.1f s",
		b.Status.Phase, b.Status.Pod(c.Pod(0)).Tries, exhausted, pressed, counts, queries, written, longest)
}

// guaranteed gives the database's container limits that are its requests.
func guaranteed(set *appsv1.StatefulSet) {
	all := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("2Gi")}
	set.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: all, Limits: all}
}

// exhaust has the kernel kill for want of memory in Medusa's container, tells what it took,
// and waits until all is up again.
func (c *Cassandra) exhaust(ctx context.Context, ordinal int) (said string, err error) {
	p, err := c.part(ctx, ordinal, patches.RoleMedusa)
	if err != nil {
		return "", err
	}
	const limit = 300 << 20
	if err := cluster.LimitMemory(p.Status.ContainerID, limit); err != nil {
		return "", err
	}
	// It grows in that container, as a Medusa would, but without having asked to go first.
	hog := "b = bytearray()\nwhile True: b.extend(b'x' * (1 << 24))"
	if _, err := c.e.Exec(ctx, c.Namespace, c.Pod(ordinal), p.Container.Name, "", medusaPython, "-c", hog); err == nil {
		return "", fmt.Errorf("memory without end in %d bytes", limit)
	}
	// The kubelet tells of an end within a second.
	ended, err := c.e.Await(ctx, c.Namespace, c.Pod(ordinal), 10*time.Second, "without its Medusa", func(pod *corev1.Pod) bool {
		now := adopted.Newest(adopted.Parts(pod), patches.RoleMedusa)
		return now.Number > p.Number || now.State() == adopted.Ended
	})
	if err != nil { // only processes in it were taken, and the agent is there to start Medusa again
		return "out of memory (the container stayed)", cluster.LimitMemory(p.Status.ContainerID, 1<<40)
	}
	said = "out of memory"
	if was := adopted.Newest(adopted.Parts(ended), patches.RoleMedusa); was.Number == p.Number {
		said += fmt.Sprintf(" (%s, %d)", was.Status.State.Terminated.Reason, was.Status.State.Terminated.ExitCode)
	}
	_, err = c.Adopted(ctx, ordinal, p.Number, 12*time.Minute)
	return said, err
}

// noImage asks for new containers of an image that is nowhere, sees that they wait and
// nothing follows, and mends it.
func (c *Cassandra) noImage(ctx context.Context, ordinal int) error {
	name := c.Pod(ordinal)
	pod, err := c.e.Pod(ctx, c.Namespace, name)
	if err != nil {
		return err
	}
	was := len(adopted.Parts(pod))
	if _, err := c.e.Kubectl(ctx, nil, "-n", c.Namespace, "annotate", "pod", name, api.AnnotationMedusaImage+"=registry.invalid/medusa:none", api.AnnotationAdoptRenew+"=1"); err != nil {
		return err
	}
	// The image of the next Medusa cannot be pulled; the one before serves on.
	pod, err = c.e.Await(ctx, c.Namespace, name, adoptedLimit, "waiting for an image", func(pod *corev1.Pod) bool {
		p := adopted.Newest(adopted.Parts(pod), patches.RoleMedusa)
		return len(adopted.Parts(pod)) > was && p.State() == adopted.Waiting && strings.HasSuffix(p.Status.State.Waiting.Reason, "ImagePullBackOff")
	})
	if err != nil {
		return err
	}
	waits := len(adopted.Parts(pod))
	time.Sleep(45 * time.Second)
	if pod, err = c.e.Pod(ctx, c.Namespace, name); err != nil {
		return err
	}
	if now := len(adopted.Parts(pod)); now != waits {
		return fmt.Errorf("while an image is missing there were %d containers, and 45 s later %d:\n%s", waits, now, described(pod))
	}
	number := adopted.Newest(adopted.Parts(pod), patches.RoleMedusa).Number
	if _, err := c.e.Kubectl(ctx, nil, "-n", c.Namespace, "annotate", "pod", name, api.AnnotationMedusaImage+"-", api.AnnotationAdoptRenew+"=2", "--overwrite"); err != nil {
		return err
	}
	_, err = c.Adopted(ctx, ordinal, number, 12*time.Minute)
	return err
}

// pressed has the kubelet say that memory is short: another pod is not adopted then, and
// is afterwards.
func (c *Cassandra) pressed(ctx context.Context, ordinal int) (said string, err error) {
	if err := c.e.MemoryPressure(ctx, true); err != nil {
		return "", err
	}
	relieved := false
	defer func() {
		if !relieved {
			_ = c.e.MemoryPressure(context.WithoutCancel(ctx), false)
		}
	}()
	// A kubelet that starts ends the streams of users, so they are not asked here.
	if err := c.AllReady(ctx, readyLimit); err != nil {
		return "", err
	}
	calm, err := c.Calm(ctx, false)
	if err != nil {
		return "", err
	}
	pod, err := c.e.Pod(ctx, c.Namespace, c.Pod(ordinal))
	if err != nil {
		return "", err
	}
	was := len(adopted.Parts(pod))
	out, dryErr := c.e.Stategraft(ctx, "-n", c.Namespace, "adopt", "--renew", "--dry-run", "pod/"+c.Pod(ordinal))
	if _, err := c.killPart(ctx, ordinal, patches.RoleSnapshot); err != nil {
		return "", err
	}
	time.Sleep(50 * time.Second) // beyond the first wait
	if pod, err = c.e.Pod(ctx, c.Namespace, c.Pod(ordinal)); err != nil {
		return "", err
	}
	if now := len(adopted.Parts(pod)); now != was {
		return "", fmt.Errorf("on a node that is short of memory there were %d containers, and then %d (%s, %v):\n%s", was, now, out, dryErr, described(pod))
	}
	if err := calm(); err != nil {
		return "", err
	}
	if err := c.e.MemoryPressure(ctx, false); err != nil {
		return "", err
	}
	relieved = true
	_, err = c.e.Await(ctx, c.Namespace, c.Pod(ordinal), 20*time.Minute, "adopted again", up)
	return "nothing added while the node was short of memory, and again after it", err
}
