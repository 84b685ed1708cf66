package heal

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/patches"
)

// ByObject restricts the manager's cache to what this package needs: injected
// pods, most of them stripped to a few names, and the bare counts of StatefulSets.
// Namespaces are watched as metadata. The options of a cache are those of a kind,
// so whoever else reads pods from the same cache, or only their metadata, gets the
// injected ones alone, in this form.
func ByObject() map[client.Object]cache.ByObject {
	injected, err := labels.NewRequirement(api.LabelInjected, selection.Exists, nil)
	if err != nil {
		panic(err) // of a constant
	}
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:         {Label: labels.NewSelector().Add(*injected), Transform: slimPod, UnsafeDisableDeepCopy: new(true)},
		&appsv1.StatefulSet{}: {Transform: slimSet, UnsafeDisableDeepCopy: new(true)},
	}
}

// slimPod keeps of a pod what judge reads, and what request, expose, cycle and the
// controllers of backups do. Of one that is Ready, as nearly all are, that is next to nothing.
//
// Of one that was adopted the containers are those of its spec, and not of its view: an
// ephemeral container cannot keep a pod from being Ready, so there is nothing to heal. Nor
// does cycle hear of a ConfigMap that an adopted container reads, as its database was not
// started with what we mount.
func slimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	kept := &corev1.Pod{}
	kept.ObjectMeta = slimMeta(&pod.ObjectMeta)
	kept.Labels = only(pod.Labels, api.LabelInjected)
	kept.Annotations = only(pod.Annotations, api.AnnotationHeldBack,
		api.AnnotationRestore, api.AnnotationRestoreSource, api.AnnotationRestoreAnswer, // for request
		api.AnnotationBackupSchedule, api.AnnotationRetain, api.AnnotationRPO, // for annotated and rpo
		api.AnnotationExpose, api.AnnotationPublicAddress, // for expose
		api.AnnotationOnConfigChange, patches.AnnotationConfigStarted) // for cycle, as is the volume
	if role := kvs.Role(pod); kvs.Of(pod) && role != "" { // for those who look for nodes that hold data
		if kept.Annotations == nil {
			kept.Annotations = map[string]string{}
		}
		kept.Annotations[kvs.AnnotationRole] = string(role)
	}
	kept.Spec.EphemeralContainers = adopted.Stubs(pod, patches.Roles...) // that it was adopted; nothing here looks at these
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == patches.VolumeConfig && v.ConfigMap != nil {
			kept.Spec.Volumes = []corev1.Volume{{Name: v.Name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: v.ConfigMap.LocalObjectReference}}}}
		}
	}
	kept.Spec.NodeName = pod.Spec.NodeName
	if slices.ContainsFunc(pod.Spec.SchedulingGates, gateOfRestore) {
		kept.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: api.GateRestore}}
	}
	kept.Status.Phase, kept.Status.NominatedNodeName = pod.Status.Phase, pod.Status.NominatedNodeName
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, api.ConditionDegraded} {
		if c := conditionOf(pod, kind); c != nil {
			if kind != corev1.PodReady || c.Status != corev1.ConditionTrue {
				kept.Status.Conditions = append(kept.Status.Conditions, *c)
				continue
			}
			kept.Status.Conditions = append(kept.Status.Conditions, corev1.PodCondition{Type: kind, Status: c.Status})
		}
	}
	if quiet(pod) || unborn(pod) {
		return kept, nil
	}
	kept.Spec.InitContainers, kept.Spec.Containers = slimContainers(pod.Spec.InitContainers), slimContainers(pod.Spec.Containers)
	kept.Status.InitContainerStatuses, kept.Status.ContainerStatuses = slimStatuses(pod.Status.InitContainerStatuses), slimStatuses(pod.Status.ContainerStatuses)
	return kept, nil
}

// unborn tells whether the pod has no node yet, and no restore to wait for: its
// containers say nothing.
func unborn(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && !slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == containerRestore })
}

// quiet tells whether nothing is wrong with the pod, nor ever was.
func quiet(pod *corev1.Pod) bool { return isReady(pod) && degraded(pod) == nil }

func slimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	kept := metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp}
	for _, owner := range m.OwnerReferences {
		if owner.Controller != nil && *owner.Controller {
			kept.OwnerReferences = []metav1.OwnerReference{owner}
		}
	}
	return kept
}

func only(from map[string]string, keys ...string) (kept map[string]string) {
	for _, key := range keys {
		if value, ok := from[key]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

func slimContainers(from []corev1.Container) []corev1.Container {
	kept := make([]corev1.Container, 0, len(from))
	for i := range from {
		c := corev1.Container{Name: from[i].Name, Image: from[i].Image, RestartPolicy: from[i].RestartPolicy}
		if ours(&from[i]) {
			c.Command = from[i].Command
		}
		if c.Name == containerRestore {
			c.Env = from[i].Env
		}
		kept = append(kept, c)
	}
	return kept
}

func slimStatuses(from []corev1.ContainerStatus) []corev1.ContainerStatus {
	kept := make([]corev1.ContainerStatus, 0, len(from))
	for _, s := range from {
		kept = append(kept, corev1.ContainerStatus{Name: s.Name, Ready: s.Ready, Started: s.Started, RestartCount: s.RestartCount,
			State: s.State, LastTerminationState: s.LastTerminationState})
	}
	return kept
}

// slimSet keeps of a StatefulSet which pods it wants, and how many it has.
func slimSet(object any) (any, error) {
	set, ok := object.(*appsv1.StatefulSet)
	if !ok {
		return object, nil
	}
	kept := &appsv1.StatefulSet{ObjectMeta: slimMeta(&set.ObjectMeta)}
	kept.Spec.Replicas, kept.Spec.Ordinals = set.Spec.Replicas, set.Spec.Ordinals
	kept.Status.Replicas, kept.Status.ObservedGeneration = set.Status.Replicas, set.Status.ObservedGeneration
	return kept, nil
}
