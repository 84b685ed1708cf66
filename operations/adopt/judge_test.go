package adopt

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

func TestAsks(t *testing.T) {
	for _, c := range []struct {
		namespace, pod string // - for none
		want           bool
	}{
		{"-", "-", false},
		{"running", "-", true},
		{"-", "running", true},
		{"running", "never", false},
		{"running", "now", false},
		{"running", "", false},
		{"never", "running", true},
		{"true", "-", false},
	} {
		ns, pod := &metav1.ObjectMeta{}, &metav1.ObjectMeta{}
		for value, o := range map[*string]*metav1.ObjectMeta{&c.namespace: ns, &c.pod: pod} {
			if *value != "-" {
				o.Annotations = map[string]string{api.AnnotationAdopt: *value}
			}
		}
		if got := Asks(ns, pod); got != c.want {
			t.Errorf("namespace %s, pod %s: %v", c.namespace, c.pod, got)
		}
	}
}

func TestJudge(t *testing.T) {
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) func(*corev1.Pod, *corev1.Node) {
		return func(_ *corev1.Pod, n *corev1.Node) {
			n.Status.Conditions = append([]corev1.NodeCondition{{Type: kind, Status: status}}, n.Status.Conditions[min(1, len(n.Status.Conditions)):]...)
			if kind != corev1.NodeReady {
				n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
			}
		}
	}
	kubelet := func(v string) func(*corev1.Pod, *corev1.Node) {
		return func(_ *corev1.Pod, n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = v }
	}
	annotated := func(all map[string]string) func(*corev1.Pod, *corev1.Node) {
		return func(p *corev1.Pod, _ *corev1.Node) { p.Annotations = all }
	}
	inject := webhook.Outcome{Decision: workload.Decision{Verdict: workload.Inject}}
	for name, c := range map[string]struct {
		edit func(*corev1.Pod, *corev1.Node)
		out  webhook.Outcome
		want Reason
	}{
		"good":              {func(*corev1.Pod, *corev1.Node) {}, inject, ""},
		"skipped":           {func(*corev1.Pod, *corev1.Node) {}, webhook.Outcome{Decision: workload.Decision{Verdict: workload.Skip, Reason: workload.ReasonSubPath, Message: "m"}}, "sub-path"},
		"refused":           {func(*corev1.Pod, *corev1.Node) {}, webhook.Outcome{Decision: workload.Decision{Verdict: workload.Refuse, Reason: workload.ReasonBadAnnotation, Message: "m"}}, "bad-annotation"},
		"deleted":           {func(p *corev1.Pod, _ *corev1.Node) { p.DeletionTimestamp = new(metav1.NewTime(time.Now())) }, inject, ReasonBeingDeleted},
		"pending":           {func(p *corev1.Pod, _ *corev1.Node) { p.Status.Phase = corev1.PodPending }, inject, ReasonNotRunning},
		"not ready":         {func(p *corev1.Pod, _ *corev1.Node) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, inject, ReasonNotReady},
		"no condition":      {func(p *corev1.Pod, _ *corev1.Node) { p.Status.Conditions = nil }, inject, ReasonNotReady},
		"restore":           {annotated(map[string]string{api.AnnotationRestore: "monday"}), inject, ReasonRestorePending},
		"restore, answered": {annotated(map[string]string{api.AnnotationRestore: "monday", api.AnnotationRestoreAnswer: "monday: done"}), inject, ""},
		"1.24":              {kubelet("v1.24.17"), inject, ReasonOldKubelet},
		"1.25":              {kubelet("v1.25.0"), inject, ""},
		"a provider's":      {kubelet("v1.29.3-eks-ae9a62a"), inject, ""},
		"no version":        {kubelet(""), inject, ReasonOldKubelet},
		"a virtual kubelet": {func(_ *corev1.Pod, n *corev1.Node) { n.Labels = map[string]string{"type": "virtual-kubelet"} }, inject, ReasonOldKubelet},
		"windows":           {func(_ *corev1.Pod, n *corev1.Node) { n.Status.NodeInfo.OperatingSystem = "windows" }, inject, ReasonWindows},
		"node not ready":    {condition(corev1.NodeReady, corev1.ConditionFalse), inject, ReasonNodeNotReady},
		"node not heard of": {condition(corev1.NodeReady, corev1.ConditionUnknown), inject, ReasonNodeNotReady},
		"memory":            {condition(corev1.NodeMemoryPressure, corev1.ConditionTrue), inject, ReasonNodePressure},
		"disk":              {condition(corev1.NodeDiskPressure, corev1.ConditionTrue), inject, ReasonNodePressure},
		"processes":         {condition(corev1.NodePIDPressure, corev1.ConditionTrue), inject, ReasonNodePressure},
	} {
		pod, node := aPod("c-0", "c", "n"), aNode("n")
		c.edit(pod, node)
		got, text := Judge(pod, node, c.out)
		if got != c.want || (got == "") != (text == "") {
			t.Errorf("%s: %q, %q", name, got, text)
		}
	}
	if got, _ := Judge(aPod("c-0", "c", "n"), nil, inject); got != ReasonNodeNotReady {
		t.Errorf("no node: %q", got)
	}
}

// The set is closed, and no word stands for two things.
func TestReasons(t *testing.T) {
	seen := map[Reason]bool{}
	for _, r := range Reasons {
		if r == "" || seen[r] {
			t.Errorf("%q twice, or empty", r)
		}
		seen[r] = true
	}
	for _, r := range own {
		if !seen[r] {
			t.Errorf("%s is not listed", r)
		}
	}
}
