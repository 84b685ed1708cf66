package lookup

import (
	"cmp"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
	"github.com/stategraft/stategraft/workload"
)

// The pod that looks into the storage is the same, whether it is made after one that was
// injected or one that was adopted.
func TestBuildAfterAdopted(t *testing.T) {
	for name, pair := range adoptedtest.Corpus(t, "../..") {
		before := asJSON(t, pair.Adopted)
		was, err := build(pair.Injected, owner())
		if err != nil {
			t.Fatalf("%s, injected: %v", name, err)
		}
		is, err := build(pair.Adopted, owner())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, problem := range problems(is) {
			t.Errorf("%s: %s", name, problem)
		}
		if asJSON(t, pair.Adopted) != before {
			t.Errorf("%s: the like was changed", name)
		}
		if pair.Workload.Kind == workload.KindCassandra {
			if a, b := pair.Text(asJSON(t, plainly(was))), pair.Text(asJSON(t, plainly(is))); a != b {
				t.Errorf("%s:\n%s\ninjected:\n%s", name, b, a)
			}
		}
	}
}

// plainly gives a pod with its lists in order, without what does not count: the volume that
// keeps a token away, which no ephemeral container needs, and the resources of pods of
// class Guaranteed.
func plainly(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "stategraft-no-token" })
	slices.SortFunc(pod.Spec.Volumes, func(a, b corev1.Volume) int { return cmp.Compare(a.Name, b.Name) })
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.Resources = corev1.ResourceRequirements{}
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "stategraft-no-token" })
		slices.SortFunc(c.VolumeMounts, func(a, b corev1.VolumeMount) int { return cmp.Compare(a.MountPath, b.MountPath) })
		slices.SortFunc(c.Env, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
	}
	pod.ObjectMeta = metav1.ObjectMeta{Name: pod.Name}
	return pod
}
