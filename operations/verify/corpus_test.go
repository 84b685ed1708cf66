package verify

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/webhook/offline"
	"github.com/stategraft/stategraft/workload"
)

// injected are the Cassandra pods of the corpus with what admission adds to them,
// as they are and on the host's network.
func injected(t *testing.T) map[string]*corev1.Pod {
	t.Helper()
	files, err := filepath.Glob("../../test/corpus/pods/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for _, file := range files {
		for variant, annotations := range map[string]map[string]string{"": nil, " host-network": {api.AnnotationHostNetwork: "true"}} {
			text, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			documents, err := offline.Read(text, file)
			text.Close()
			if err != nil {
				t.Fatal(err)
			}
			result, err := offline.Decide(documents[0], offline.Options{Namespace: offline.Labelled(), Config: webhook.DefaultConfig(), Annotations: annotations})
			if err != nil {
				t.Fatal(err)
			}
			if result.Verdict != workload.Inject || result.Workload.Kind != workload.KindCassandra {
				continue
			}
			raw, err := result.Apply()
			if err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{}
			if err := json.Unmarshal(raw, pod); err != nil {
				t.Fatal(err)
			}
			pods[strings.TrimSuffix(filepath.Base(file), ".yaml")+variant] = pod
		}
	}
	if len(pods) < 30 {
		t.Fatalf("only %d pods are injected", len(pods))
	}
	return pods
}

var corpus map[string]*corev1.Pod // read once

// official is the pod of a plain StatefulSet with the official image.
func official(t *testing.T) *corev1.Pod {
	t.Helper()
	if corpus == nil {
		corpus = injected(t)
	}
	return corpus["plain-official-41"].DeepCopy()
}

func backupOf(nodes ...string) *api.Backup {
	b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nightly-1", UID: "uid-b", Labels: map[string]string{api.LabelSchedule: "nightly"}}}
	b.Status = api.BackupStatus{Phase: api.BackupComplete, Name: "20261130-030017-s1a2b3c4d-nightly-1", Prefix: "ns_demo", Started: at(0), Finished: at(time.Minute)}
	for _, n := range nodes {
		b.Status.Pods = append(b.Status.Pods, api.PodBackup{Name: n, Phase: api.PodBackupComplete, Objects: 1, Bytes: 3 << 30})
	}
	return b
}

var t0 = time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)

func at(after time.Duration) *metav1.Time {
	t := metav1.NewTime(t0.Add(after))
	return &t
}

func jobOf(spec *api.BackupVerify) job {
	b := backupOf("cassandra-0")
	b.Status.Verified = begin("cassandra-0", t0)
	return job{backup: b, spec: spec, node: "cassandra-0", bytes: 3 << 30, limit: time.Hour}
}

// TestCorpus holds what a pod of ours has to be against every pod it is made after:
// what controller-creates.stategraft.io and the restricted Pod Security Standard ask
// for, and that nothing is mounted that is not there.
func TestCorpus(t *testing.T) {
	for name, like := range injected(t) {
		before := asJSON(t, like)
		database, err := databaseOf(like, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for volume, spec := range map[string]*api.BackupVerify{"": {}, " claim": {Volume: &api.VerifyVolume{}}} {
			pod, err := build(like, database, jobOf(spec))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, problem := range problems(pod, database) {
				t.Errorf("%s%s: %s", name, volume, problem)
			}
			pod.Spec.Containers[0].Env[0].Name = "CHANGED"
			pod.Spec.InitContainers[1].VolumeMounts[0].Name = "changed"
			for k := range pod.Spec.NodeSelector {
				pod.Spec.NodeSelector[k] = "changed"
			}
		}
		if asJSON(t, like) != before {
			t.Errorf("%s: shares something with its like", name)
		}
	}
}

func asJSON(t *testing.T, object any) string {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func problems(pod *corev1.Pod, database *corev1.Container) (all []string) {
	bad := func(is bool, text string) {
		if is {
			all = append(all, text)
		}
	}
	s := &pod.Spec
	bad(!strings.HasPrefix(pod.Name, NamePrefix) || pod.Namespace != "ns", "name")
	bad(pod.Labels[api.LabelInject] != api.InjectDisabled || pod.Labels[api.LabelInjected] != "" || pod.Labels[api.LabelVerify] != "uid-b", "it would be injected, or taken for a database's")
	for key := range pod.Labels {
		bad(!strings.HasPrefix(key, api.Group+"/") && !slices.Contains([]string{"app.kubernetes.io/managed-by", "app.kubernetes.io/component", "sidecar.istio.io/inject"}, key), "label "+key)
	}
	bad(len(pod.OwnerReferences) != 1 || pod.OwnerReferences[0].Kind != "Backup" || pod.OwnerReferences[0].UID != "uid-b", "owner")
	bad(len(s.InitContainers) != 2 || len(s.Containers) != 1, "containers")
	bad(s.HostNetwork || s.HostPID || s.HostIPC || s.NodeName != "" || s.PriorityClassName != "" || s.Hostname != "" || s.Subdomain != "" || s.SchedulingGates != nil, "place")
	bad(s.ServiceAccountName != "default" || s.AutomountServiceAccountToken == nil || *s.AutomountServiceAccountToken, "account")
	bad(s.ActiveDeadlineSeconds == nil || *s.ActiveDeadlineSeconds != 3600 || s.RestartPolicy != corev1.RestartPolicyOnFailure, "life")
	bad(s.SecurityContext == nil || !*s.SecurityContext.RunAsNonRoot || s.SecurityContext.SeccompProfile == nil || len(s.SecurityContext.Sysctls) > 0, "security context of the pod")
	volumes, scratches := map[string]bool{}, 0
	for _, v := range s.Volumes {
		bad(volumes[v.Name], "volume "+v.Name+" twice")
		volumes[v.Name] = true
		bad(v.EmptyDir == nil && v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.Projected == nil && v.Ephemeral == nil, "volume "+v.Name+" is of the node or of a disk")
		bad(v.Projected != nil && !plain(v.Projected), "volume "+v.Name+" has a token")
		bad(v.ConfigMap != nil && !*v.ConfigMap.Optional || v.Secret != nil && !*v.Secret.Optional, "volume "+v.Name+" is waited for")
		if v.Ephemeral != nil || v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil {
			scratches++
		}
	}
	bad(scratches != 1, "it has not one volume for the data")
	for i, c := range slices.Concat(s.InitContainers, s.Containers) {
		bad(c.Name != []string{patches.ContainerSetup, patches.ContainerRestore, containerVerify}[i], "container "+c.Name)
		bad(len(c.Ports) > 0 || c.RestartPolicy != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil || c.Lifecycle != nil || len(c.EnvFrom) > 0 || len(c.Args) > 0, c.Name+" has more than it needs")
		bad(c.Resources.Limits.Memory().IsZero() || c.Resources.Limits.Cpu().IsZero(), c.Name+" has no limits")
		for name, limit := range c.Resources.Limits {
			request := c.Resources.Requests[name]
			bad(request.Cmp(limit) > 0, c.Name+" asks for more than it may have")
		}
		sc := c.SecurityContext
		bad(sc == nil || *sc.RunAsUser == 0 || !*sc.RunAsNonRoot || *sc.AllowPrivilegeEscalation || len(sc.Capabilities.Add) > 0 || len(sc.Capabilities.Drop) != 1 || sc.SELinuxOptions != nil, "security context of "+c.Name)
		bad(*sc.RunAsUser != *s.Containers[0].SecurityContext.RunAsUser, c.Name+" is another user")
		paths := map[string]bool{}
		for _, m := range c.VolumeMounts {
			bad(!volumes[m.Name], "volume "+m.Name+" of "+c.Name+" is not there")
			bad(paths[m.MountPath], c.Name+" has two mounts at "+m.MountPath)
			paths[m.MountPath] = true
		}
		names := map[string]bool{}
		for _, v := range c.Env {
			bad(names[v.Name], c.Name+" has variable "+v.Name+" twice")
			names[v.Name] = true
			bad(v.Name == patches.EnvTidyAfter || v.Name == patches.EnvNodePort, c.Name+" has variable "+v.Name)
		}
	}
	restore, check := s.InitContainers[1], s.Containers[0]
	bad(check.Image != database.Image, "image "+check.Image)
	mount := valueOf(check.Env, envDataMount)
	for _, c := range []corev1.Container{restore, check} {
		at := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == mount })
		bad(at < 0 || c.VolumeMounts[max(at, 0)].ReadOnly, c.Name+" does not have the data")
		bad(valueOf(c.Env, envContents) != contentsFile, c.Name+" does not know the counts")
	}
	bad(valueOf(restore.Env, "MEDUSA_TMP_DIR") != mount || valueOf(restore.Env, patches.EnvBackup) == "" || valueOf(restore.Env, patches.EnvRestoreSource) != "cassandra-0" ||
		valueOf(restore.Env, patches.EnvRestorePrefix) != "ns_demo", "it restores something else")
	return all
}
