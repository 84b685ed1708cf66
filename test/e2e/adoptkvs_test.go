package e2e

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/images"
	"github.com/stategraft/stategraft/test/kvs"
)

// An Anna that ran before anybody asked, as the corpus has it, is adopted and backed up; a
// sidecar of it is killed, and the next one makes the second backup.
func TestAdoptRunningAnna(t *testing.T) {
	e, ctx := restoring(t, 15*time.Minute)
	step := stepper(t)
	const namespace = "hydro" // whose names the pods have in their variables
	sets := []string{"anna-routing", "anna-monitoring", "anna-memory", "anna-ebs"}
	e.namespaces = append(e.namespaces, namespace)
	step("namespace", e.CreateNamespace(ctx, namespace, nil, nil))
	step("storage", e.storage(ctx, namespace))
	step("client", e.Apply(ctx, namespace, "annaclient.yaml", map[string]string{"ANNA_IMAGE": images.Anna}))
	_, err := e.Client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "anna"},
		Data: map[string]string{"anna-config.yml": annaBase}}, metav1.CreateOptions{})
	step("configuration", err)
	_, err = e.Client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "anna"}}, metav1.CreateOptions{})
	step("account", err)
	k := &KVS{e: e, Namespace: namespace, setup: KVSSetup{Routing: 2}, threads: 4}
	step("management", k.management(ctx))
	for _, name := range sets {
		step(name, k.corpusSet(ctx, name, withConfig))
	}
	for _, name := range sets {
		step(name+" is ready", e.RolledOut(ctx, namespace, "statefulset/"+name, 5*time.Minute))
	}
	d := kvs.Data{Keys: 5000, Large: 5, Seed: 8}
	k.written(ctx, t, d)
	k.all(ctx, t, d)
	memory := k.as(memorySet)
	calm, err := memory.Calm(ctx, true)
	step("watched", err)

	began := time.Now()
	step("asked", memory.Adopts(ctx))
	var pods []string
	for _, set := range []string{memorySet, diskSet} {
		names, err := k.Pods(ctx, set)
		step("pods of "+set, err)
		pods = append(pods, names...)
	}
	for _, name := range pods {
		_, err := e.Await(ctx, namespace, name, adoptedLimit, "adopted", agentUp(0))
		step("adopted "+name, err)
	}
	took := time.Since(began)
	step("backup asked", memory.AskBackup(ctx, "first", api.BackupSpec{}))
	b, err := memory.BackupUntil(ctx, "first", 5*time.Minute, "complete", func(b *api.Backup) bool { return b.Status.Phase == api.BackupComplete })
	step("backed up", err)
	number, err := memory.killPart(ctx, 0, patches.RoleAgent)
	step("sidecar killed", err)
	_, err = e.Await(ctx, namespace, memory.Pod(0), adoptedLimit, "adopted again", agentUp(number))
	step("adopted again", err)
	step("backup asked", memory.AskBackup(ctx, "second", api.BackupSpec{}))
	second, err := memory.BackupUntil(ctx, "second", 5*time.Minute, "complete", func(b *api.Backup) bool { return b.Status.Phase == api.BackupComplete })
	step("backed up", err)
	k.all(ctx, t, d)
	step("nothing moved", calm())
	if len(b.Status.Pods) != len(pods) || len(second.Status.Pods) != len(pods) {
		t.Errorf("backups of %d and %d pods, not of %d", len(b.Status.Pods), len(second.Status.Pods), len(pods))
	}
	for _, set := range []string{"anna-routing", "anna-monitoring"} {
		names, err := k.Pods(ctx, set)
		step("pods of "+set, err)
		for _, name := range names {
			if pod, err := e.Pod(ctx, namespace, name); err != nil || adopted.Is(pod) {
				t.Errorf("pod %s, which has no data, is adopted (%v)", name, err)
			}
		}
	}

	step("restore asked", memory.Asked(ctx, "back", api.RestoreSpec{Backup: second.Status.Name, Pods: ofSet(memorySet)}))
	_, err = memory.Until(ctx, "back", 8*time.Minute, "completed", func(r *api.Restore) bool { return r.Status.Phase == api.RestoreCompleted })
	step("restored", err)
	k.all(ctx, t, d)
	figure(t, "%d nodes of Anna adopted in %s, backed up twice, a sidecar killed in between; no restart; restored: %d keys equal", len(pods), took.Round(time.Second), d.Keys)
}

// withConfig mounts the ConfigMap where the entry point of the corpus looks for it.
func withConfig(spec *corev1.PodSpec) {
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "anna-config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "anna"}}}})
	for i := range spec.Containers {
		if c := &spec.Containers[i]; slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == "ANNA_CONF_BASE" }) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "anna-config", MountPath: "/etc/anna"})
		}
	}
}

// agentUp tells whether a node of Anna is adopted, by an agent of a number beyond the one
// before.
func agentUp(before int) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		p := adopted.Newest(adopted.Parts(pod), patches.RoleAgent)
		return pod.Labels[api.LabelInjected] != "" && p != nil && p.Number > before && p.State() == adopted.Running
	}
}
