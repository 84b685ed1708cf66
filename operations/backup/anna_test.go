package backup

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/patches"
)

// annaPod is a pod of Anna's, of StatefulSet anna-ROLE.
func annaPod(role, ordinal, cluster string) *corev1.Pod {
	pod := bare("anna-" + role + "-" + ordinal)
	pod.OwnerReferences[0].Name, pod.OwnerReferences[0].UID = "anna-"+role, "set"
	pod.Labels = map[string]string{api.LabelInjected: "anna", "app": "anna"}
	agent := corev1.Container{Name: patches.ContainerAgent, Env: []corev1.EnvVar{{Name: kvs.EnvRole, Value: role}, {Name: kvs.EnvCluster, Value: cluster}}}
	if role == "memory" || role == "ebs" {
		agent.Ports = []corev1.ContainerPort{{Name: node.PortName, ContainerPort: 1}}
	}
	pod.Spec.InitContainers = []corev1.Container{agent}
	return pod
}

// annaFacts are those of a Backup of the memory tier, beside a disk tier, routing and
// another cluster.
func annaFacts(change func(f *Facts)) Facts {
	return factsOf(func(f *Facts) {
		f.Backup.Spec.Pods.Workload.Name = "anna-memory"
		f.Set = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "anna-memory", UID: "set"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2))}}
		f.Cluster = []*corev1.Pod{annaPod("memory", "0", "hydro"), annaPod("memory", "1", "hydro"), annaPod("ebs", "0", "hydro"), annaPod("routing", "0", "hydro"), annaPod("memory", "7", "other")}
		f.Pods = f.Cluster[:4]
		for _, pod := range f.Cluster {
			f.Reports[pod.Name] = node.Report{Node: pod.Name, Prefix: "hydro"}
		}
		change(f)
	})
}

func TestAnnaIsBackedUpAsAWhole(t *testing.T) {
	whole := []string{"anna-ebs-0", "anna-memory-0", "anna-memory-1"}
	for name, c := range map[string]struct {
		change func(f *Facts)
		pods   []string
		added  []string
		reason string
		says   string
	}{
		"one tier": {func(*Facts) {}, whole, []string{"anna-ebs-0"}, "", ""},
		"a pod by name": {func(f *Facts) {
			f.Set, f.Pods = nil, f.Cluster[:1]
			f.Backup.Spec.Pods = &api.BackupPods{Names: []string{"anna-memory-0"}}
		}, whole, []string{"anna-ebs-0", "anna-memory-1"}, "", ""},
		"labels that routing has, too": {func(f *Facts) {
			f.Set = nil
			f.Backup.Spec.Pods = &api.BackupPods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "anna"}}}
		}, whole, nil, "", ""},
		"routing alone": {func(f *Facts) {
			f.Set, f.Pods = nil, f.Cluster[3:4]
			f.Backup.Spec.Pods = &api.BackupPods{Names: []string{"anna-routing-0"}}
		}, nil, nil, ReasonNotInjected, "holds no keys"},
		"perhaps of two clusters": {func(f *Facts) {
			for _, pod := range f.Cluster {
				pod.Spec.InitContainers[0].Env[1].Value = "" // no label
			}
		}, nil, nil, ReasonNotSupported, "may be of one cluster of Anna, or of two"},
		"perhaps of two, all named": {func(f *Facts) {
			for _, pod := range f.Cluster {
				pod.Spec.InitContainers[0].Env[1].Value = ""
			}
			f.Set, f.Cluster = nil, f.Cluster[:4]
			f.Backup.Spec.Pods = &api.BackupPods{Names: whole}
		}, whole, nil, "", ""},
		"of another Stategraft": {func(f *Facts) {
			for _, pod := range f.Cluster {
				pod.Spec.InitContainers[0].Ports = nil
			}
		}, nil, nil, ReasonNotInjected, "older Stategraft"},
	} {
		f := annaFacts(c.change)
		v := judge(f)
		if v.problem != nil {
			if v.problem.Reason != c.reason || !strings.Contains(v.problem.Message, c.says) {
				t.Errorf("%s: %s: %s", name, v.problem.Reason, v.problem.Message)
			}
			continue
		}
		var pods []string
		for i := range v.pods {
			pods = append(pods, v.pods[i].Name)
		}
		if c.reason != "" || !slices.Equal(pods, c.pods) || c.added != nil && !slices.Equal(v.added, c.added) || v.prefix != "hydro" {
			t.Errorf("%s: %q, added %q, below %q", name, pods, v.added, v.prefix)
		}
	}
}

// A part that lacks keys is complete, and a Backup with it is not.
func TestMissingKeys(t *testing.T) {
	f := annaFacts(func(*Facts) {})
	b := f.Backup
	s := accept(b, world{verdict: judge(f)}, today)
	b.Status = s.status
	w := world{pods: map[string]seen{}, stored: &node.Backup{}}
	for i := range b.Status.Pods {
		at := &b.Status.Pods[i]
		m := node.Member{Node: at.Name, Complete: true, Started: today, Finished: today, Objects: 2, Bytes: 100, Keys: 10}
		if at.Name == "anna-memory-1" {
			m.Missing = &node.Missing{Count: 3, Keys: []string{"k1", `"k\x00"`}}
		}
		w.stored.Members = append(w.stored.Members, m)
		w.pods[at.Name] = seen{sight: succeededSight, uid: at.UID}
	}
	s = run(b, w, today)
	at := s.status.Pod("anna-memory-1")
	if s.status.Phase != api.BackupPartial || at.Phase != api.PodBackupComplete || at.Missing != 3 || at.Keys != 10 {
		t.Fatalf("%s, %+v", s.status.Phase, at)
	}
	for _, says := range []string{"3 keys of 3 pods", "anna-memory-1", `k1, "k\x00"`} {
		if !strings.Contains(s.status.Message, says) {
			t.Errorf("%q does not say %q", s.status.Message, says)
		}
	}
	if reasonOf(&s.status, api.ConditionFailed) != ReasonKeysMissing {
		t.Errorf("%+v", s.status.Conditions)
	}
	w.stored.Members[2].Missing = nil
	if s := run(b, w, today); s.status.Phase != api.BackupComplete {
		t.Errorf("without: %s: %s", s.status.Phase, s.status.Message)
	}
}
