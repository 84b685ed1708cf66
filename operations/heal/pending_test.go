package heal

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// unscheduled has a pod without node, by what the scheduler says since a time.
func unscheduled(since time.Duration, reason, message string) change {
	return func(_ testing.TB, pod *corev1.Pod) {
		pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: at(since)}}}
	}
}

const short = "0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient memory. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."

func TestJudgePending(t *testing.T) {
	const minute = time.Minute
	for _, c := range []struct {
		name    string
		changes []change
		now     time.Duration
		want    judgement
	}{
		{"not looked at yet", []change{func(_ testing.TB, pod *corev1.Pod) { pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{} }}, time.Hour, nothing},
		{"gated", []change{unscheduled(0, corev1.PodReasonSchedulingGated, short)}, time.Hour, nothing},
		{"short", []change{unscheduled(minute, corev1.PodReasonUnschedulable, short)}, 2 * minute, wait(4 * minute)},
		{"short for too long", []change{unscheduled(minute, corev1.PodReasonUnschedulable, short)}, 4 * minute, judgement{action: actPlace, again: 7 * minute}},
		{"looked at again", []change{unscheduled(minute, corev1.PodReasonUnschedulable, short)}, 7 * minute, judgement{action: actPlace, again: 13 * minute}},
		{"looked at seldom in the end", []change{unscheduled(0, corev1.PodReasonUnschedulable, short)}, 48 * time.Hour, judgement{action: actPlace, again: 49 * time.Hour}},
		{"short of what is not ours", []change{unscheduled(minute, corev1.PodReasonUnschedulable, "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")}, time.Hour, nothing},
		{"for another reason", []change{unscheduled(minute, corev1.PodReasonUnschedulable, "0/1 nodes are available: 1 node(s) had untolerated taint(s).")}, time.Hour, nothing},
		{"a message of the future", []change{unscheduled(minute, corev1.PodReasonUnschedulable, "no room: 3 Insufficient memory")}, time.Hour, nothing},
		{"room is being made", []change{unscheduled(minute, corev1.PodReasonUnschedulable, short), func(_ testing.TB, pod *corev1.Pod) { pod.Status.NominatedNodeName = "a" }}, time.Hour, nothing},
		{"it is to stay", []change{unscheduled(minute, corev1.PodReasonUnschedulable, short), annotated(api.AnnotationHeldBack, api.HeldBackIgnore)}, time.Hour, nothing},
		{"it is to be restored", []change{unscheduled(minute, corev1.PodReasonUnschedulable, short), annotated(api.AnnotationRestore, "nightly")}, time.Hour, nothing},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := admitted(t, cassandra, nil)
			for _, change := range c.changes {
				change(t, pod)
			}
			if got := summary(judge(pod, start.Add(c.now), deadline)); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
	pod := admitted(t, cassandra, map[string]string{api.AnnotationRestore: "nightly"})
	unscheduled(0, corev1.PodReasonUnschedulable, short)(t, pod)
	if v := judge(pod, start.Add(time.Hour), deadline); v.action != actNothing {
		t.Errorf("%s a pod that is to be restored", v.action)
	}
}

func TestParseUnschedulable(t *testing.T) {
	for message, want := range map[string]unschedulable{
		short: {3, 2},
		"0/12 nodes are available: 10 Insufficient ephemeral-storage, 12 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.": {12, 12},
		"0/5 nodes are available: 1 Insufficient memory, 4 node(s) had volume node affinity conflict.":                                              {5, 1},
		"": {}, "1/1 nodes are available: 1 Insufficient memory": {}, "0/99999999999999999999 nodes are available: 1 Insufficient memory": {},
	} {
		if got, ok := parseUnschedulable(message); ok != (want.short > 0) || ok && got != want {
			t.Errorf("%q: %+v %v, want %+v", message, got, ok, want)
		}
	}
}

func node(name, cpu, memory string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Status: corev1.NodeStatus{Allocatable: amounts(cpu, memory)}}
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("10")
	for _, change := range changes {
		change(n)
	}
	return n
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func tainted(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
}

// The pod asks for 1 CPU and 4 GiB, and is Guaranteed; ours ask for 750m and
// nearly 1.5 GiB more.
func TestOurFault(t *testing.T) {
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	full := func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("0") }
	for _, c := range []struct {
		name   string
		nodes  []*corev1.Node
		taken  corev1.ResourceList // on each of them
		short  int
		change change
		want   string // node; empty where it is not us
	}{
		{name: "fits without us", nodes: []*corev1.Node{node("a", "1500m", "8Gi")}, short: 1, want: "a"},
		{name: "fits without us, exactly", nodes: []*corev1.Node{node("a", "1", "4Gi")}, short: 1, want: "a"},
		{name: "memory", nodes: []*corev1.Node{node("a", "8", "5Gi")}, short: 1, want: "a"},
		{name: "fits nowhere", nodes: []*corev1.Node{node("a", "500m", "8Gi"), node("b", "8", "2Gi")}, short: 2},
		{name: "fits without us on the second", nodes: []*corev1.Node{node("a", "500m", "8Gi"), node("b", "1", "8Gi")}, short: 2, want: "b"},
		{name: "others are there", nodes: []*corev1.Node{node("a", "8", "16Gi")}, taken: amounts("7", "8Gi"), short: 1, want: "a"},
		{name: "others have taken all", nodes: []*corev1.Node{node("a", "8", "16Gi")}, taken: amounts("7500m", "8Gi"), short: 1},
		{name: "there is room by now", nodes: []*corev1.Node{node("a", "1", "8Gi"), node("b", "8", "16Gi")}, short: 2},
		{name: "room on a node that is out for another reason", nodes: []*corev1.Node{node("a", "1", "8Gi"), node("b", "8", "16Gi")}, short: 1, want: "a"},
		{name: "tainted", nodes: []*corev1.Node{node("a", "1", "8Gi", tainted)}, short: 1},
		{name: "tainted, tolerated", nodes: []*corev1.Node{node("a", "1", "8Gi", tainted)}, short: 1, change: tolerating, want: "a"},
		{name: "cordoned", nodes: []*corev1.Node{node("a", "1", "8Gi", cordoned)}, short: 1},
		{name: "has enough pods", nodes: []*corev1.Node{node("a", "1", "8Gi", full)}, short: 1},
		{name: "selected", nodes: []*corev1.Node{node("a", "1", "8Gi")}, short: 1, change: selecting("a"), want: "a"},
		{name: "not selected", nodes: []*corev1.Node{node("a", "1", "8Gi")}, short: 1, change: selecting("b")},
		{name: "attracted", nodes: []*corev1.Node{node("a", "1", "8Gi")}, short: 1, change: attracted(corev1.NodeSelectorOpIn, "a", "b"), want: "a"},
		{name: "repelled", nodes: []*corev1.Node{node("a", "1", "8Gi")}, short: 1, change: attracted(corev1.NodeSelectorOpNotIn, "a")},
		{name: "asks for what no node has", nodes: []*corev1.Node{node("a", "1", "8Gi")}, short: 1, change: asking("nvidia.com/gpu")},
		{name: "only the name is ours", nodes: []*corev1.Node{node("a", "1200m", "8Gi")}, short: 1, change: command(medusa, "sleep")},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := admitted(t, cassandra, nil)
			if c.change != nil {
				c.change(t, pod)
			}
			var places []place
			for _, n := range c.nodes {
				p := placeOf(n)
				if c.taken != nil {
					p.take(c.taken)
				}
				places = append(places, p)
			}
			got, ok := ourFault(pod, unschedulable{nodes: len(c.nodes), short: c.short}, places)
			if ok != (c.want != "") || ok && got != c.want {
				t.Errorf("%q %v, want %q", got, ok, c.want)
			}
		})
	}
}

func tolerating(_ testing.TB, pod *corev1.Pod) {
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists})
}

func selecting(host string) change {
	return func(_ testing.TB, pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": host}
	}
}

func attracted(op corev1.NodeSelectorOperator, names ...string) change {
	return func(_ testing.TB, pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{}, {MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: op, Values: names}}}}}}}
	}
}

func asking(name corev1.ResourceName) change {
	return func(_ testing.TB, pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests[name] = resource.MustParse("1")
	}
}

// Requests are summed as the scheduler does it.
func TestRequestsOf(t *testing.T) {
	c := func(name, cpu string) corev1.Container {
		return corev1.Container{Name: name, Command: []string{"/bin/stategraft-agent"},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
	}
	always := func(c corev1.Container) corev1.Container {
		c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		return c
	}
	for _, x := range []struct {
		name          string
		spec          corev1.PodSpec
		with, without string
	}{
		{"ordinary", corev1.PodSpec{Containers: []corev1.Container{c("a", "1"), c(medusa, "2")}}, "3", "1"},
		{"init counts where it is larger", corev1.PodSpec{InitContainers: []corev1.Container{c("i", "5")}, Containers: []corev1.Container{c("a", "1"), c(medusa, "2")}}, "5", "5"},
		{"sidecars add up", corev1.PodSpec{InitContainers: []corev1.Container{always(c(agent, "2"))}, Containers: []corev1.Container{c("a", "1")}}, "3", "1"},
		{"init beside an earlier sidecar", corev1.PodSpec{InitContainers: []corev1.Container{always(c(agent, "2")), c("i", "4")}, Containers: []corev1.Container{c("a", "1")}}, "6", "4"},
		{"init before the sidecar", corev1.PodSpec{InitContainers: []corev1.Container{c("i", "4"), always(c(agent, "2"))}, Containers: []corev1.Container{c("a", "1")}}, "4", "4"},
		{"overhead", corev1.PodSpec{Containers: []corev1.Container{c("a", "1")}, Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}, "2", "2"},
		{"of the pod as a whole", corev1.PodSpec{Containers: []corev1.Container{c("a", "1"), c(medusa, "2")},
			Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}}}, "8", "8"},
	} {
		pod := &corev1.Pod{Spec: x.spec}
		before := pod.DeepCopy()
		for own, want := range map[bool]string{true: x.with, false: x.without} {
			if got := requestsOf(pod, own)[corev1.ResourceCPU]; got.String() != want {
				t.Errorf("%s: %s with ours %v, want %s", x.name, got.String(), own, want)
			}
		}
		if !sameJSON(pod, before) {
			t.Errorf("%s: the pod was changed", x.name)
		}
	}
}
