package heal

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/patches"
)

// Whatever becomes of the containers of an adopted pod, and of the pod itself, nothing is done
// with it: they cannot keep it from being Ready, and cannot be changed.
func TestAdoptedIsLeftAlone(t *testing.T) {
	over := adoptedtest.Ended("", 137)
	over.State.Terminated.Reason = "OOMKilled"
	looping := adoptedtest.Waiting("", "CrashLoopBackOff", "")
	looping.RestartCount, looping.LastTerminationState = 9, over.State
	states := map[string]corev1.ContainerStatus{"runs": adoptedtest.Running(""), "image is missing": adoptedtest.Waiting("", "ImagePullBackOff", "no such image"),
		"Secret is missing": adoptedtest.Waiting("", "CreateContainerConfigError", "no such secret"), "killed": over, "loops": looping, "nothing heard": {}}
	conditions := map[string][]corev1.PodCondition{
		"Ready":     {{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		"not Ready": {{Type: corev1.PodReady, Status: corev1.ConditionFalse}},
		"of before": {{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: api.ConditionDegraded, Status: corev1.ConditionTrue, Reason: api.DegradedImagePull, LastProbeTime: metav1.NewTime(adoptedtest.At)}},
	}
	for name, pair := range adoptedtest.Corpus(t, "../..") {
		for what, state := range states {
			for kind, list := range conditions {
				pod := pair.Adopted.DeepCopy()
				pod.Spec.NodeName, pod.Status.Conditions = "node", list
				for i := range pod.Status.EphemeralContainerStatuses {
					state.Name = pod.Status.EphemeralContainerStatuses[i].Name
					pod.Status.EphemeralContainerStatuses[i] = state
				}
				kept, err := slimPod(pod)
				if err != nil {
					t.Fatal(err)
				}
				for where, p := range map[string]*corev1.Pod{"as it is": pod, "of the cache": kept.(*corev1.Pod)} {
					for _, after := range []time.Duration{0, time.Minute, time.Hour} {
						if v := judge(p, adoptedtest.At.Add(after), deadline); v.action != actNothing || len(v.troubles)+len(v.cures) > 0 {
							t.Fatalf("%s, %s, %s, %s: %+v", name, what, kind, where, v)
						}
					}
				}
			}
		}
	}
}

// Of an adopted pod the cache has what the controllers read there, and that it was adopted.
func TestSlimAdopted(t *testing.T) {
	anna, configured := 0, 0
	for name, pair := range adoptedtest.Corpus(t, "../..") {
		was, err := slimPod(pair.Injected)
		if err != nil {
			t.Fatal(err)
		}
		is, err := slimPod(pair.Adopted)
		if err != nil {
			t.Fatal(err)
		}
		injected, slim := was.(*corev1.Pod), is.(*corev1.Pod)
		if slim.Labels[api.LabelInjected] != injected.Labels[api.LabelInjected] || kvs.HoldsData(slim) != kvs.HoldsData(injected) || kvs.Idle(slim) != kvs.Idle(injected) || kvs.Role(slim) != kvs.Role(injected) {
			t.Errorf("%s: %+v; injected %+v", name, slim.ObjectMeta, injected.ObjectMeta)
		}
		if kvs.HoldsData(slim) {
			anna++
		}
		if !adopted.Is(slim) || adopted.Is(injected) {
			t.Errorf("%s: adopted %v, injected %v", name, adopted.Is(slim), adopted.Is(injected))
		}
		if len(slim.Spec.Containers)+len(slim.Status.ContainerStatuses)+len(slim.Status.EphemeralContainerStatuses) > 0 {
			t.Errorf("%s: keeps %+v", name, slim)
		}
		// Its database was not started with a ConfigMap of ours, so cycle has nothing to do.
		if kvs.ConfigMap(injected) != "" {
			configured++
		}
		for _, v := range slim.Spec.Volumes {
			if v.Name == patches.VolumeConfig {
				t.Errorf("%s: keeps a ConfigMap", name)
			}
		}
		if text := kvs.ConfigMap(slim); text != "" {
			t.Errorf("%s: keeps ConfigMap %s", name, text)
		}
	}
	if anna == 0 || configured == 0 {
		t.Errorf("%d nodes of Anna, %d injected pods with a ConfigMap", anna, configured)
	}
}
