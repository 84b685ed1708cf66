package heal

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// start is when the pods of the tests were created.
var start = time.Date(2026, 11, 30, 2, 0, 0, 0, time.UTC)

func at(after time.Duration) metav1.Time { return metav1.NewTime(start.Add(after)) }

// admitted is a pod of the corpus as the webhook admits it, with annotations.
func admitted(t testing.TB, name string, annotations map[string]string) *corev1.Pod {
	t.Helper()
	return ordered(t, name, annotations, api.Order{})
}

// ordered is such a pod that a Restore has an order for.
func ordered(t testing.TB, name string, annotations map[string]string, order api.Order) *corev1.Pod {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "test", "corpus", "pods", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var before corev1.Pod
	if err := yaml.Unmarshal(text, &before); err != nil {
		t.Fatal(err)
	}
	for key, value := range annotations {
		metav1.SetMetaDataAnnotation(&before.ObjectMeta, key, value)
	}
	raw, err := json.Marshal(&before)
	if err != nil {
		t.Fatal(err)
	}
	out := webhook.Decide(webhook.Input{Pod: raw, Config: webhook.DefaultConfig(), NativeSidecars: true,
		Order:     func(string, string) (api.Order, bool) { return order, order.Pending || order.Tidy },
		Namespace: webhook.Namespace{Name: before.Namespace, Labels: map[string]string{api.LabelInject: api.InjectEnabled}}})
	if out.Verdict != workload.Inject {
		t.Fatalf("%s: %s (%s) %s", name, out.Verdict, out.Reason, out.Message)
	}
	operations, err := patches.Marshal(out.Patch.Operations)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = patch.Apply(raw); err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := json.Unmarshal(raw, &pod); err != nil {
		t.Fatal(err)
	}
	pod.UID, pod.ResourceVersion, pod.CreationTimestamp, pod.Spec.NodeName = "uid", "1", at(0), "node"
	run(&pod)
	return &pod
}

// run has everything in the pod run as it should, as a kubelet reports it.
func run(pod *corev1.Pod) {
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning}
	for _, p := range parts(pod) {
		s := corev1.ContainerStatus{Name: p.Name, Image: p.Image, Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(0)}}}
		if !sidecar(p.Container, p.init) {
			s.Started = new(false)
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: at(0), FinishedAt: at(0)}}
		}
		if p.init {
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, s)
		} else {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, s)
		}
	}
	readiness(pod)
}

// readiness makes the pod's condition Ready what its containers say.
func readiness(pod *corev1.Pod) {
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(0)}
	for _, p := range parts(pod) {
		if !p.status.Ready {
			ready.Status, ready.Reason = corev1.ConditionFalse, "ContainersNotReady"
		}
	}
	setCondition(pod, ready)
}

func setCondition(pod *corev1.Pod, condition corev1.PodCondition) {
	if had := conditionOf(pod, condition.Type); had != nil {
		*had = condition
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}

// statusOf finds the status of a container.
func statusOf(t testing.TB, pod *corev1.Pod, name string) *corev1.ContainerStatus {
	t.Helper()
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	t.Fatalf("pod %s has no container %s", pod.Name, name)
	return nil
}

func containerOf(t testing.TB, pod *corev1.Pod, name string) *corev1.Container {
	t.Helper()
	for _, p := range parts(pod) {
		if p.Name == name {
			return p.Container
		}
	}
	t.Fatalf("pod %s has no container %s", pod.Name, name)
	return nil
}

// change is something that happens to a pod.
type change func(t testing.TB, pod *corev1.Pod)

func waiting(name, reason string) change {
	return func(t testing.TB, pod *corev1.Pod) {
		s := statusOf(t, pod, name)
		s.Ready, s.Started, s.ContainerID = false, new(false), ""
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "what the kubelet says"}}
	}
}

// ends has a container end for the nth time, and wait for its next start.
func ends(name, reason string, code, times int32) change {
	return func(t testing.TB, pod *corev1.Pod) {
		waiting(name, "CrashLoopBackOff")(t, pod)
		s := statusOf(t, pod, name)
		s.RestartCount = times - 1
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, FinishedAt: at(time.Minute)}
	}
}

// ended is ends before the kubelet has noticed that it has to wait.
func endedNow(name string, times int32) change {
	return func(t testing.TB, pod *corev1.Pod) {
		s := statusOf(t, pod, name)
		s.Ready, s.RestartCount = false, times-1
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1}}
	}
}

// restarted has a container run again since a time, after it ended.
func restarted(name string, since time.Duration, times int32) change {
	return func(t testing.TB, pod *corev1.Pod) {
		s := statusOf(t, pod, name)
		s.Ready, s.Started, s.RestartCount = true, new(true), times
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(since)}}
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1}
	}
}

// starting has the database run without being ready.
func starting(name string) change {
	return func(t testing.TB, pod *corev1.Pod) { statusOf(t, pod, name).Ready = false }
}

// blocked has everything from an init container on wait for it.
func blocked(name, reason string) change {
	return func(t testing.TB, pod *corev1.Pod) {
		after := false
		for _, p := range parts(pod) {
			if after {
				waiting(p.Name, "PodInitializing")(t, pod)
				statusOf(t, pod, p.Name).LastTerminationState = corev1.ContainerState{}
			}
			if p.Name == name {
				waiting(name, reason)(t, pod)
				after = true
			}
		}
		pod.Status.Phase = corev1.PodPending
	}
}

// marked has our condition since a time.
func marked(reason string, since time.Duration) change {
	return func(_ testing.TB, pod *corev1.Pod) {
		setCondition(pod, corev1.PodCondition{Type: api.ConditionDegraded, Status: corev1.ConditionTrue, Reason: reason,
			LastProbeTime: at(since), LastTransitionTime: at(0)})
	}
}

func recovered(_ testing.TB, pod *corev1.Pod) {
	setCondition(pod, corev1.PodCondition{Type: api.ConditionDegraded, Status: corev1.ConditionFalse, Reason: api.DegradedRecovered})
}

// inImageOf has a container run in the image of another.
func inImageOf(name, other string) change {
	return func(t testing.TB, pod *corev1.Pod) {
		containerOf(t, pod, name).Image = containerOf(t, pod, other).Image
	}
}

func annotated(key, value string) change {
	return func(_ testing.TB, pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value) }
}

func apply(t testing.TB, pod *corev1.Pod, changes ...change) {
	t.Helper()
	for _, c := range changes {
		c(t, pod)
	}
	readiness(pod)
}
