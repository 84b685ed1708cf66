package lookup

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
			if result.Verdict != workload.Inject || !result.Workload.HoldsData() {
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

func owner() *api.Restore {
	return &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "uid-r"}}
}

// TestCorpus holds what a pod of ours has to be against every pod it is made after:
// what the policy controller-creates.stategraft.io and the restricted Pod Security
// Standard ask for, and that nothing is mounted that is not there.
func TestCorpus(t *testing.T) {
	for name, like := range injected(t) {
		before := like.DeepCopy()
		pod, err := build(like, owner())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, problem := range problems(pod) {
			t.Errorf("%s: %s", name, problem)
		}
		pod.Spec.Containers[0].Env[0].Name = "CHANGED"
		pod.Spec.Containers[0].VolumeMounts[0].Name = "changed"
		for k := range pod.Spec.NodeSelector {
			pod.Spec.NodeSelector[k] = "changed"
		}
		if a, b := asJSON(t, before), asJSON(t, like); a != b {
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

func problems(pod *corev1.Pod) (all []string) {
	bad := func(is bool, text string) {
		if is {
			all = append(all, text)
		}
	}
	s := &pod.Spec
	bad(!strings.HasPrefix(pod.Name, NamePrefix) || pod.Namespace != "ns", "name")
	bad(pod.Labels[api.LabelInject] != api.InjectDisabled || pod.Labels[api.LabelInjected] != "", "it would be injected, or taken for a database's")
	bad(len(s.InitContainers) > 0 || len(s.Containers) != 2 && !(len(s.Containers) == 1 && s.Containers[0].Name == patches.ContainerAgent), "containers")
	bad(s.HostNetwork || s.HostPID || s.HostIPC || s.NodeName != "" || s.Affinity != nil || s.PriorityClassName != "" || s.Hostname != "" || s.Subdomain != "", "place")
	bad(s.ServiceAccountName != "default" || s.AutomountServiceAccountToken == nil || *s.AutomountServiceAccountToken, "account")
	bad(s.ActiveDeadlineSeconds == nil || s.RestartPolicy != corev1.RestartPolicyNever, "life")
	bad(s.SecurityContext == nil || !*s.SecurityContext.RunAsNonRoot || s.SecurityContext.SeccompProfile == nil || len(s.SecurityContext.Sysctls) > 0, "security context of the pod")
	volumes := map[string]bool{}
	for _, v := range s.Volumes {
		volumes[v.Name] = true
		bad(v.EmptyDir == nil && v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.Projected == nil, "volume "+v.Name+" is of the node or of a disk")
		bad(v.Projected != nil && !plain(v.Projected), "volume "+v.Name+" has a token")
		bad(v.ConfigMap != nil && (v.ConfigMap.Optional == nil || !*v.ConfigMap.Optional) || v.Secret != nil && (v.Secret.Optional == nil || !*v.Secret.Optional), "volume "+v.Name+" is waited for")
	}
	for _, c := range s.Containers {
		bad(c.Name != patches.ContainerAgent && c.Name != patches.ContainerMedusa, "container "+c.Name)
		sc := c.SecurityContext
		bad(sc == nil || *sc.RunAsUser == 0 || !*sc.RunAsNonRoot || *sc.AllowPrivilegeEscalation || len(sc.Capabilities.Add) > 0 || len(sc.Capabilities.Drop) != 1 || sc.SELinuxOptions != nil, "security context of "+c.Name)
		for _, m := range c.VolumeMounts {
			bad(!volumes[m.Name], "volume "+m.Name+" of "+c.Name+" is not there")
		}
		for _, p := range c.Ports {
			bad(p.HostPort != 0, "port of the node")
		}
		for _, v := range c.Env {
			bad(v.Name == patches.EnvTidyAfter, "tidies up")
		}
	}
	if len(s.Containers) == 1 {
		return all
	}
	medusa := s.Containers[1]
	bad(medusa.Env[len(medusa.Env)-1] != corev1.EnvVar{Name: envDatabaseFirst, Value: "1h"} || limit >= 3600, "starts Medusa's service")
	return all
}
