package verify

import (
	"cmp"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
	"github.com/stategraft/stategraft/workload"
)

// The pod of a restore on trial is the same, whether it is made after one that was injected
// or one that was adopted.
func TestBuildAfterAdopted(t *testing.T) {
	for name, pair := range adoptedtest.Corpus(t, "../..") {
		if pair.Workload.Kind != workload.KindCassandra {
			continue
		}
		before := asJSON(t, pair.Adopted)
		var pods [2]*corev1.Pod
		for i, like := range []*corev1.Pod{pair.Injected, pair.Adopted} {
			database, err := databaseOf(like, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if pods[i], err = build(like, database, jobOf(&api.BackupVerify{})); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, problem := range problems(pods[i], database) {
				t.Errorf("%s: %s", name, problem)
			}
		}
		if a, b := pair.Text(asJSON(t, plainly(pods[0]))), pair.Text(asJSON(t, plainly(pods[1]))); a != b {
			t.Errorf("%s:\n%s\ninjected:\n%s", name, b, a)
		}
		if asJSON(t, pair.Adopted) != before {
			t.Errorf("%s: the like was changed", name)
		}
	}
}

// plainly gives a pod with its lists in order.
func plainly(pod *corev1.Pod) *corev1.Pod {
	slices.SortFunc(pod.Spec.Volumes, func(a, b corev1.Volume) int { return cmp.Compare(a.Name, b.Name) })
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			slices.SortFunc(list[i].VolumeMounts, func(a, b corev1.VolumeMount) int { return cmp.Compare(a.MountPath, b.MountPath) })
			slices.SortFunc(list[i].Env, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
		}
	}
	return pod
}
