package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/kvs"
)

// dataFlags are the client's flags of the data.
func dataFlags(d kvs.Data, more ...string) []string {
	return append([]string{"-keys", strconv.Itoa(d.Keys), "-large", strconv.Itoa(d.Large), "-seed", strconv.FormatUint(d.Seed, 10)}, more...)
}

// written writes the data in a version, each of every so many.
func (k *KVS) written(ctx context.Context, t *testing.T, d kvs.Data, more ...string) float64 {
	t.Helper()
	var count int
	took, err := k.Client(ctx, &count, "load", dataFlags(d, more...)...)
	if err != nil {
		t.Fatalf("writing keys: %v", err)
	}
	return took
}

// all reads the data and fails unless every key is as it was written.
func (k *KVS) all(ctx context.Context, t *testing.T, d kvs.Data, more ...string) {
	t.Helper()
	var v kvs.Verified
	if _, err := k.Client(ctx, &v, "verify", dataFlags(d, more...)...); err != nil {
		t.Fatalf("reading keys: %v", err)
	}
	if v.Wrong > 0 || v.Missing > 0 || v.Equal != int64(d.Keys) {
		t.Fatalf("of %d keys %d are equal, %d wrong, %d missing: %s", d.Keys, v.Equal, v.Wrong, v.Missing, strings.Join(v.Names, "; "))
	}
}

// await waits until every key is served as it was written, and tells for how long.
func (k *KVS) await(ctx context.Context, t *testing.T, d kvs.Data) time.Duration {
	t.Helper()
	began := time.Now()
	var v kvs.Verified
	if _, err := k.Client(ctx, &v, "await", dataFlags(d)...); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// ofSet selects the pods of a StatefulSet of the example.
func ofSet(set string) api.RestorePods {
	return api.RestorePods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": set}}}
}

// A whole Anna is backed up, lost with all its volumes, and restored into one of another
// size and another number of threads; a sidecar is killed in mid-replay. Then the same
// backup is replayed into it once more, over values that are newer by now.
func TestKVSTotalLoss(t *testing.T) {
	e, ctx := restoring(t, 60*time.Minute)
	step := stepper(t)
	d := kvs.Data{Keys: kvsKeys(1_000_000), Seed: 7}
	d.Large = d.Keys / 1000
	k, err := e.KVS(ctx, "kvs-loss", KVSSetup{Routing: 2, Memory: 3, Disk: 2, Threads: 2})
	step("ready", err)
	loaded := k.written(ctx, t, d)
	step("written", nil)
	memory := k.as(memorySet)
	step("asked", memory.AskBackup(ctx, "whole", api.BackupSpec{}))
	b, err := memory.BackupUntil(ctx, "whole", 15*time.Minute, "complete", func(b *api.Backup) bool { return b.Status.Phase == api.BackupComplete })
	step("backed up", err)
	if len(b.Status.Pods) != 5 {
		t.Errorf("the backup is of %d pods, not of three and two", len(b.Status.Pods))
	}
	step("lost", k.Delete(ctx))
	step("another cluster", k.Deploy(ctx, KVSSetup{Routing: 2, Memory: 4, Disk: 2, Threads: 3}))
	began := time.Now()
	step("asked", memory.Asked(ctx, "back", api.RestoreSpec{Backup: b.Status.Name, Pods: ofSet(memorySet)}))
	killed := k.killInReplay(ctx, t, "back", memorySet+"-1")
	r, err := memory.Until(ctx, "back", 30*time.Minute, "completed", func(r *api.Restore) bool { return r.Status.Phase == api.RestoreCompleted })
	step("restored", err)
	restored := time.Since(began)
	step("ready", k.Ready(ctx, 2*time.Minute))
	if len(r.Status.Pods) != 6 {
		t.Errorf("the restore is of %d pods, not of four and two", len(r.Status.Pods))
	}
	k.all(ctx, t, d)
	step("all there", nil)
	figure(t, "%d keys (%d of 100 kB) of 3+2 nodes with 2 threads: written in %.0f s, backed up in %s, restored into 4+2 nodes with 3 threads in %s, a sidecar killed in mid-replay (%s); all equal",
		d.Keys, d.Large, loaded, b.Status.Finished.Sub(b.Status.Started.Time).Round(time.Second), restored.Round(time.Second), killed)

	newer := []string{"-version", "1", "-every", "13"}
	k.written(ctx, t, d, newer...)
	began = time.Now()
	step("asked again", memory.Asked(ctx, "again", api.RestoreSpec{Backup: b.Status.Name, Mode: api.Merge, Pods: ofSet(memorySet)}))
	_, err = memory.Until(ctx, "again", 30*time.Minute, "completed", func(r *api.Restore) bool { return r.Status.Phase == api.RestoreCompleted })
	step("replayed again", err)
	took := time.Since(began)
	k.all(ctx, t, d, "-newer", "13")
	figure(t, "the same backup replayed again in %s over %d newer values: those stayed, all others equal", took.Round(time.Second), (d.Keys+12)/13)
}

// killInReplay kills the sidecar of a pod in the midst of its replay, and tells where it
// was. The pod must not be ready before all is replayed.
func (k *KVS) killInReplay(ctx context.Context, t *testing.T, restore, pod string) string {
	t.Helper()
	var at api.PodRestore
	_, err := k.as(memorySet).Until(ctx, restore, 20*time.Minute, "replaying", func(r *api.Restore) bool {
		for _, p := range r.Status.Pods {
			if p.Name == pod {
				at = p
			}
		}
		return at.KeysTotal > 0 && at.Keys > 0
	})
	if err != nil {
		t.Fatal(err)
	}
	now, err := k.e.Pod(ctx, k.Namespace, pod)
	if err != nil {
		t.Fatal(err)
	}
	if at.Phase == api.PodReplaying && ready(now) {
		t.Errorf("pod %s is ready while it replays", pod)
	}
	if err := k.as(memorySet).killIn(ctx, pod, patches.ContainerAgent); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("after %d of its %d keys", at.Keys, at.KeysTotal)
}

// Who routes, who holds keys and where they are changes, and nobody does anything about
// it: clients are served again.
func TestKVSMembership(t *testing.T) {
	e, ctx := restoring(t, 40*time.Minute)
	step := stepper(t)
	d := kvs.Data{Keys: kvsKeys(5000), Large: 5, Seed: 9}
	k, err := e.KVS(ctx, "kvs-members", KVSSetup{Routing: 2, Memory: 3, Disk: 1, Threads: 1})
	step("ready", err)
	k.written(ctx, t, d)
	memory := k.as(memorySet)
	await := func(d kvs.Data) time.Duration { return k.await(ctx, t, d) }

	began := time.Now()
	step("routing deleted", k.deleteAll(ctx, routingSet))
	await(d)
	figure(t, "both routing nodes deleted: every key served again after %s", time.Since(began).Round(time.Second))

	step("asked", memory.AskBackup(ctx, "before", api.BackupSpec{}))
	b, err := memory.BackupUntil(ctx, "before", 10*time.Minute, "complete", func(b *api.Backup) bool { return b.Status.Phase == api.BackupComplete })
	step("backed up", err)

	began = time.Now()
	step("a node lost for good", k.lose(ctx, memorySet, 2))
	others := kvs.Data{Keys: 500, Seed: 11}
	k.written(ctx, t, others)
	await(others)
	served := time.Since(began)
	step("asked to repair", memory.Asked(ctx, "repair", api.RestoreSpec{Backup: b.Status.Name, Mode: api.Merge, Pods: ofSet(memorySet)}))
	_, err = memory.Until(ctx, "repair", 10*time.Minute, "completed", func(r *api.Restore) bool { return r.Status.Phase == api.RestoreCompleted })
	step("repaired", err)
	await(d)
	figure(t, "a node lost for good: writes and reads again after %s; its keys, repaired from the backup, after %s", served.Round(time.Second), time.Since(began).Round(time.Second))

	began = time.Now()
	step("a node added", k.scale(ctx, memorySet, 4))
	step("ready", k.Ready(ctx, 5*time.Minute))
	await(d)
	figure(t, "two nodes added: every key served after %s", time.Since(began).Round(time.Second))

	began = time.Now()
	for _, set := range []string{memorySet, diskSet, routingSet} {
		_, err := e.Kubectl(ctx, nil, "-n", k.Namespace, "rollout", "restart", "statefulset/"+set)
		step("restart of "+set, err)
		step("rolled", e.RolledOut(ctx, k.Namespace, "statefulset/"+set, 15*time.Minute))
	}
	took := await(d)
	figure(t, "every pod re-created, one after the other, all addresses changed: every key served %s after the last, %s after the first", took.Round(time.Second), time.Since(began).Round(time.Second))
}

func (k *KVS) deleteAll(ctx context.Context, set string) error {
	names, err := k.Pods(ctx, set)
	if err != nil {
		return err
	}
	_, err = k.e.Kubectl(ctx, nil, append([]string{"-n", k.Namespace, "delete", "pod"}, names...)...)
	return err
}

func (k *KVS) scale(ctx context.Context, set string, n int) error {
	_, err := k.e.Kubectl(ctx, nil, "-n", k.Namespace, "scale", "statefulset/"+set, "--replicas="+strconv.Itoa(n))
	return err
}

// lose takes the last node of a StatefulSet away as a machine that burns would: nothing
// of it can say goodbye.
func (k *KVS) lose(ctx context.Context, set string, ordinal int) error {
	pod := fmt.Sprintf("%s-%d", set, ordinal)
	c := k.as(set)
	for _, name := range []string{"memory-container", patches.ContainerAgent} {
		if err := c.killIn(ctx, pod, name); err != nil {
			return err
		}
	}
	if err := k.scale(ctx, set, ordinal); err != nil {
		return err
	}
	_, err := k.e.Kubectl(ctx, nil, "-n", k.Namespace, "delete", "pod", pod, "--grace-period=0", "--force", "--ignore-not-found")
	return err
}
