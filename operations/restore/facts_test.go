package restore

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// Facts for the tests of plans: StatefulSet cas with its pods cas-0, … in namespace
// ns, all Ready and answering, with a backup of them all.

var (
	today = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	made  = today.Add(-time.Minute) // the Restore
)

func factPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	owner, _ := numbered(name)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name),
			Labels:          map[string]string{api.LabelInjected: "cassandra", "app": "cas"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: owner[:max(len(owner)-1, 0)], UID: "set", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "cassandra", Image: "cassandra:4.1.3"},
			{Name: patches.ContainerMedusa, Ports: []corev1.ContainerPort{{Name: "medusa-grpc", ContainerPort: 50051}, {Name: node.PortName, ContainerPort: node.DefaultPort}}},
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

// factSet is the StatefulSet of factPod.
func factSet(replicas int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cas", UID: "set"}, Spec: appsv1.StatefulSetSpec{Replicas: &replicas}}
	for _, f := range change {
		f(set)
	}
	return set
}

func owned(set *appsv1.StatefulSet) func(*Facts) {
	return func(f *Facts) { f.Sets = map[string]*appsv1.StatefulSet{"cas": set} }
}

func unready(pod *corev1.Pod) { pod.Status.Conditions = nil }

func factBackup(name string, nodes ...string) *node.Backup {
	b := &node.Backup{Ring: map[string]node.Ring{}}
	b.Name, b.Nodes, b.Complete, b.Finished = name, nodes, true, today.Add(-3*time.Hour)
	b.Started = b.Finished.Add(-time.Minute)
	for i, n := range nodes {
		b.Members = append(b.Members, node.Member{Node: n, Complete: true, Finished: b.Finished, Bytes: 1 << 30, Objects: 10, Tables: 3, Version: "4.1.3"})
		b.Ring[n] = node.Ring{Tokens: []string{fmt.Sprint(i)}, Datacenter: "dc1", Rack: "rack1"}
	}
	return b
}

// facts are those of a Restore of the first n of total pods.
func facts(n, total int, change ...func(*Facts)) Facts {
	f := Facts{
		Restore: &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "r", CreationTimestamp: metav1.NewTime(made)},
			Spec: api.RestoreSpec{Backup: "nightly", Mode: api.InPlace, WhenNoBackup: api.NoBackupFail, KeepPrevious: api.KeepIfRoom}},
		Labelled: true, Now: today, Reports: map[string]node.Report{}, Silent: map[string]error{},
	}
	var nodes []string
	for i := range total {
		pod := factPod(fmt.Sprintf("cas-%d", i))
		f.Kin = append(f.Kin, pod)
		nodes = append(nodes, pod.Name)
		if i < n {
			f.Pods = append(f.Pods, pod)
			f.Restore.Spec.Pods.Names = append(f.Restore.Spec.Pods.Names, pod.Name)
			f.Reports[pod.Name] = node.Report{Node: pod.Name, Size: 100 << 30, Free: 50 << 30}
		}
	}
	f.Backup = factBackup("nightly", nodes...)
	f.Backups = &node.Backups{Prefix: "ns-demo", Backups: []node.Summary{f.Backup.Summary}}
	for _, c := range change {
		c(&f)
	}
	return f
}

func factBudget(name string, allowed, expected int32, match map[string]string) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: match}},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, ExpectedPods: expected}}
}

func problemIs(p *Problem, reason string) bool {
	if p == nil {
		return reason == ""
	}
	return p.Reason == reason
}
