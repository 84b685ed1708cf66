package adopt

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
)

// The webhook's own containers are recognised, take the pair, and are the same when they
// are made once more of a pod that has them.
func TestContainersOfTheWebhook(t *testing.T) {
	pod := aPod("c-0", "c", "n")
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-c-0"}}}}
	pod.Spec.Containers = []corev1.Container{{Name: "cassandra", Image: "cassandra:5.0", Ports: []corev1.ContainerPort{{ContainerPort: 9042}, {ContainerPort: 7000}, {ContainerPort: 7199}},
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/cassandra"}}}}
	w := newWorld(t, pod)
	w.decide = webhook.Adopt
	w.expect("the first", "c-0: agent-1 snapshot-2 medusa-3")
	l := look(Of(pod))
	if l.newest[patches.RoleMedusa] == nil || !mutual(l.newest[patches.RoleMedusa]) {
		t.Fatalf("Medusa's part does not take the pair: %+v", pod.Spec.EphemeralContainers)
	}
	is(w.one("c-0"), patches.RoleMedusa, waits("ImagePullBackOff"))
	w.clock = w.clock.Add(day)
	for range 4 {
		w.expect("it waits for the same", "")
	}
	w.change("prod", func(ns *corev1.Namespace) {
		ns.Annotations["stategraft.io/medusa-image"] = "registry.example.com/medusa:9"
	})
	w.look()
	w.expect("it waits for another", "c-0: agent-4 snapshot-5 medusa-6")
}
