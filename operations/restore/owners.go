package restore

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// isSet tells whether an owner is one of Kubernetes' own StatefulSets. Others have
// kinds of that name too.
func isSet(owner *metav1.OwnerReference) bool {
	return owner != nil && owner.Kind == "StatefulSet" && strings.HasPrefix(owner.APIVersion, appsv1.GroupName+"/")
}

// setOf is the StatefulSet that makes a pod; nil where it is not known, or the pod is
// left over from another of its name.
func setOf(f Facts, pod *corev1.Pod) *appsv1.StatefulSet {
	owner := metav1.GetControllerOf(pod)
	if !isSet(owner) {
		return nil
	}
	if set := f.Sets[owner.Name]; set != nil && set.UID == owner.UID {
		return set
	}
	return nil
}

// ordinals are the numbers of the pods that a StatefulSet is to have, from the first to
// before the last.
func ordinals(set *appsv1.StatefulSet) (from, to int) {
	to = 1
	if set.Spec.Replicas != nil {
		to = int(*set.Spec.Replicas)
	}
	if set.Spec.Ordinals != nil {
		from = int(set.Spec.Ordinals.Start)
	}
	return from, from + to
}

// comeAgain tells why a pod would not come back to be restored once it is deleted, by
// what is to make it: a template may have changed since the pod was made, which with
// the strategy OnDelete nobody sees on it.
func comeAgain(f Facts, pods []*corev1.Pod) *Problem {
	for _, pod := range pods {
		set := setOf(f, pod)
		if set == nil {
			continue
		}
		template := &set.Spec.Template
		if backup, ok := template.Annotations[api.AnnotationRestore]; ok {
			return &Problem{Reason: ReasonTemplateRestores, Message: fmt.Sprintf("StatefulSet %s has the annotation %s: %s in its template, and every pod that comes after %s would ask for both; take it out of the template first",
				set.Name, api.AnnotationRestore, workload.Short(backup), pod.Name)}
		}
		if template.Labels[api.LabelInject] == api.InjectDisabled {
			return &Problem{Reason: ReasonOptedOut, Message: fmt.Sprintf("StatefulSet %s has the label %s=%s in its template, so no restore container could be added to the pod that comes after %s; take the label out of the template",
				set.Name, api.LabelInject, api.InjectDisabled, pod.Name)}
		}
		if template.Spec.NodeName != "" {
			return &Problem{Reason: ReasonNotSupported, Message: fmt.Sprintf("StatefulSet %s names a node in its template (spec.nodeName %s), so that the pod that comes after %s could not wait for its turn at a scheduling gate; use a node selector",
				set.Name, workload.Short(template.Spec.NodeName), pod.Name)}
		}
	}
	for _, pod := range pods {
		set := setOf(f, pod)
		if set == nil {
			continue
		}
		n, ok := ordinal(pod.Name, set.Name)
		from, to := ordinals(set)
		switch {
		case set.DeletionTimestamp != nil:
			return &Problem{Reason: ReasonPodGoing, Wait: true, Message: fmt.Sprintf("StatefulSet %s is being deleted: nobody would make pod %s anew", set.Name, pod.Name)}
		case ok && (n < from || n >= to):
			return &Problem{Reason: ReasonPodGoing, Wait: true, Message: fmt.Sprintf("pod %s is on its way out: StatefulSet %s is to have %s, and would not make it anew", pod.Name, set.Name, counted(to-from, "pod"))}
		}
	}
	return nil
}

// notThere are the nodes of the backup whose pods a StatefulSet is to have, and which
// are not there: it waits for others to be ready (OrderedReady), or cannot make them.
func notThere(f Facts, set *appsv1.StatefulSet, nodes []string) (names []string) {
	if set == nil {
		return nil
	}
	from, to := ordinals(set)
	for _, name := range nodes {
		n, ok := ordinal(name, set.Name)
		if ok && n >= from && n < to && !slices.ContainsFunc(f.Kin, func(pod *corev1.Pod) bool { return pod.Name == name }) {
			names = append(names, name)
		}
	}
	return names
}
