package heal

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// randomPod is an admitted pod in some state, sensible or not.
func randomPod(t *testing.T, r *rand.Rand, from []*corev1.Pod) *corev1.Pod {
	pod := pick(r, from...).DeepCopy()
	if r.IntN(6) == 0 {
		pod.Annotations[api.AnnotationRestore] = "weekly"
	}
	if r.IntN(12) == 0 {
		pod.Annotations[api.AnnotationRestoreAnswer] = pick(r, "weekly: refused", "nightly: refused")
	}
	if r.IntN(12) == 0 {
		gated(pick(r, api.GateRestore, "other.io/gate"))(t, pod)
	}
	if r.IntN(6) == 0 && hasContainer(pod, containerSetup) {
		blocked(containerSetup, "ErrImagePull")(t, pod)
	}
	for _, p := range parts(pod) {
		for range r.IntN(2) {
			pick(r,
				waiting(p.Name, pick(r, "ErrImagePull", "ImagePullBackOff", "CreateContainerError", "ContainerCreating", "PodInitializing", "")),
				ends(p.Name, pick(r, "OOMKilled", "Error", "Completed", "StartError"), int32(r.IntN(2)), int32(1+r.IntN(6))),
				endedNow(p.Name, int32(1+r.IntN(6))), restarted(p.Name, time.Duration(r.IntN(20))*time.Minute, int32(r.IntN(6))),
				runsNow(p.Name), starting(p.Name), func(testing.TB, *corev1.Pod) {},
			)(t, pod)
		}
		switch r.IntN(12) {
		case 0:
			p.Command = []string{"sleep", "1d"}
		case 1:
			p.Image = pod.Spec.Containers[0].Image
		}
	}
	readiness(pod)
	if r.IntN(2) == 0 {
		marked(pick(r, api.DegradedImagePull, api.DegradedCrashLoop, api.DegradedHealed, api.DegradedNotHealed, api.DegradedRefused), time.Duration(r.IntN(20))*time.Minute)(t, pod)
	}
	switch r.IntN(20) {
	case 0:
		going(t, pod)
	case 1:
		pod.Status = corev1.PodStatus{}
	case 2:
		pod.Spec.NodeName = ""
	}
	return pod
}

func hasContainer(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(parts(pod), func(p part) bool { return p.Name == name })
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// Whatever state a pod is in: nothing is proposed for a container that is not ours,
// by name and by command, nor for a pod that is to be restored, nor where a
// container of the user's is what is not ready; no image is proposed that the
// container has; and the stripped pod of the cache says the same as the whole.
func TestJudgeProperties(t *testing.T) {
	asked := map[string]string{api.AnnotationRestore: "nightly"}
	from := []*corev1.Pod{admitted(t, cassandra, nil), admitted(t, "cass-operator", nil), admitted(t, anna, nil),
		admitted(t, "cloudburst-executor", nil), admitted(t, cassandra, asked), admitted(t, anna, asked),
		ordered(t, cassandra, nil, api.Order{Restore: "r", ID: "r/1", Pending: true, Action: api.ActionRestore, Backup: "nightly"})}
	r := rand.New(rand.NewPCG(4, 0)) // the same pods each time: a test that fails now and then is of no use
	count := map[action]int{}
	for range 10_000 {
		pod := randomPod(t, r, from)
		now := start.Add(time.Duration(r.IntN(30)) * time.Minute)
		all, v := parts(pod), judge(pod, now, deadline)
		count[v.action]++
		writes := v.action == actHeal || v.action == actGiveUp || v.action == actReplace || v.action == actMark || v.action == actNote
		if writes && (restorePending(pod, all) || finished(pod)) {
			t.Fatalf("%s a pod that is to be restored, or that goes", v.action)
		}
		for _, c := range v.troubles {
			if !ours(c.Container) {
				t.Fatalf("%s because of %s", v.action, c.Name)
			}
		}
		for _, c := range v.cures {
			if !ours(c.Container) || c.Name == containerSetup || c.Name == containerRestore || c.image == c.Image || c.image == "" && usersImage(all, c.Image) {
				t.Fatalf("cure of %s, which has image %s, with %q", c.Name, c.Image, c.image)
			}
		}
		if v.action == actHeal || v.action == actGiveUp {
			for _, p := range all {
				if !p.own && !p.init && !p.status.Ready && hasRun(p.status) {
					t.Fatalf("%s while %s is not ready", v.action, p.Name)
				}
			}
		}
		sameInCache(t, pod, now, v)
	}
	for _, a := range []action{actNothing, actMark, actHeal, actGiveUp, actNote, actClear, actReplace, actRelease} {
		if count[a] == 0 {
			t.Errorf("no pod came to %q, so nothing was tested of it (%v)", a, count)
		}
	}
}

func sameInCache(t *testing.T, pod *corev1.Pod, now time.Time, v verdict) {
	t.Helper()
	kept, err := slimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	slim := kept.(*corev1.Pod)
	if quiet(pod) != quiet(slim) {
		t.Fatal("the stripped pod is not as quiet as the whole")
	}
	if quiet(pod) {
		if v.action != actNothing && v.action != actRelease || len(v.troubles) > 0 {
			t.Fatalf("%s a pod that is quiet", v.action)
		}
		return
	}
	if w := judge(slim, now, deadline); w.action != v.action || !w.at.Equal(v.at) || len(w.cures) != len(v.cures) {
		t.Fatalf("%s until %s by the stripped pod, %s until %s by the whole", w.action, w.at, v.action, v.at)
	}
	again, err := slimPod(slim)
	if err != nil || !sameJSON(again, slim) {
		t.Fatalf("stripped twice, another pod (%v)", err)
	}
}
