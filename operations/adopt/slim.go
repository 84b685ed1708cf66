package adopt

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// slim keeps of a pod what is read here at each look. Whoever is about to add to it reads
// the whole one.
func slim(pod *corev1.Pod) *corev1.Pod {
	kept := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		Labels: ours(pod.Labels), Annotations: ours(pod.Annotations)}}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		kept.OwnerReferences = []metav1.OwnerReference{{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Controller: owner.Controller}}
	}
	if revision, ok := pod.Labels[appsv1.ControllerRevisionHashLabelKey]; ok {
		metav1.SetMetaDataLabel(&kept.ObjectMeta, appsv1.ControllerRevisionHashLabelKey, revision)
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if workload.Own(list[i].Name) {
				kept.Spec.Containers = append(kept.Spec.Containers, corev1.Container{Name: list[i].Name})
			}
		}
	}
	kept.Spec.NodeName = pod.Spec.NodeName
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		if workload.Own(c.Name) {
			kept.Spec.EphemeralContainers = append(kept.Spec.EphemeralContainers, corev1.EphemeralContainer{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: c.Name, Env: slimEnv(c.Env)}})
		}
	}
	kept.Status.Phase = pod.Status.Phase
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			kept.Status.Conditions = []corev1.PodCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	for i := range pod.Status.EphemeralContainerStatuses {
		if s := &pod.Status.EphemeralContainerStatuses[i]; workload.Own(s.Name) {
			kept.Status.EphemeralContainerStatuses = append(kept.Status.EphemeralContainerStatuses, corev1.ContainerStatus{Name: s.Name, State: s.State})
		}
	}
	return kept
}

// created tells of a slim pod whether it was created with a container of ours. The label
// alone may be in a template that was copied from a pod, whoever did that.
func created(slim *corev1.Pod) bool { return len(slim.Spec.Containers) > 0 }

// read are the variables of a part that are read of one that is there.
var read = []string{patches.EnvAdopted, patches.EnvAdoptedAt, patches.EnvAdoptedPair, patches.EnvAdoptedRenew, patches.EnvAdoptedDigest, patches.EnvNodePort, envCertificate}

func slimEnv(env []corev1.EnvVar) (kept []corev1.EnvVar) {
	for _, v := range env {
		if slices.Contains(read, v.Name) {
			kept = append(kept, corev1.EnvVar{Name: v.Name, Value: v.Value})
		}
	}
	return kept
}

// ours keeps the keys of Stategraft.
func ours(all map[string]string) map[string]string {
	var kept map[string]string
	for key, value := range all {
		if strings.HasPrefix(key, api.Group+"/") {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

// same tells whether two slim pods differ in nothing that is read.
func same(a, b *corev1.Pod) bool {
	x, y := *a, *b
	x.ResourceVersion, y.ResourceVersion = "", ""
	return equality.Semantic.DeepEqual(&x, &y)
}

// workloadOf names what makes a pod; empty where nobody does.
func workloadOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return ""
	}
	return pod.Namespace + "/" + owner.Kind + "/" + owner.Name
}
