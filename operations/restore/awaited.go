package restore

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// unsettled is the selector of a Restore whose pods are yet to be settled, or are not
// touched; nil where it is about names.
func unsettled(r, earlier *api.Restore) labels.Selector {
	if accepted, _ := condition(&r.Status, api.ConditionAccepted); accepted && !r.Spec.DryRun {
		return nil
	}
	_, selector := Asked(r, earlier)
	return selector
}

// awaited are the pods that the StatefulSets of a namespace are to have, that are not
// among its pods, and that a selector would match: by the labels of the template, and
// by those that are added to the pods of a StatefulSet.
func awaited(sets []*appsv1.StatefulSet, pods []*corev1.Pod, selector labels.Selector) (names []string) {
	there := map[string]bool{}
	for _, pod := range pods {
		there[pod.Name] = true
	}
	for _, set := range sets {
		if set.DeletionTimestamp != nil {
			continue
		}
		bears := labels.Set(maps.Clone(set.Spec.Template.Labels))
		if bears == nil {
			bears = labels.Set{}
		}
		if kind := injected(set, pods); kind != "" {
			bears[api.LabelInjected] = kind
		}
		from, to := ordinals(set)
		for n := from; n < to; n++ {
			name := set.Name + "-" + strconv.Itoa(n)
			if there[name] {
				continue
			}
			bears[appsv1.StatefulSetPodNameLabel], bears[appsv1.PodIndexLabel] = name, strconv.Itoa(n)
			if selector.Matches(bears) {
				names = append(names, name)
			}
		}
	}
	slices.SortFunc(names, natural)
	return names
}

// injected is what admission says of the pods of a StatefulSet, and so of one to come:
// people select by that, too.
func injected(set *appsv1.StatefulSet, pods []*corev1.Pod) string {
	for _, pod := range pods {
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.UID == set.UID && pod.Labels[api.LabelInjected] != "" {
			return pod.Labels[api.LabelInjected]
		}
	}
	return ""
}

// lacks waits for the pods that are still to come, as right after the workload was
// applied anew: a workload that is restored in part has nodes without data in its ring.
func lacks(f Facts) *Problem {
	if len(f.Awaited) == 0 {
		return nil
	}
	if kindOf(f.Pods) == api.KindAnna { // whoever is named, all nodes of the cluster are restored
		return &Problem{Reason: ReasonPodNotFound, Wait: true, Message: fmt.Sprintf("waits for %s, which the cluster is to have and which %s not there: the events of its StatefulSet tell why. To restore the others without, scale the StatefulSet down",
			someOf(f.Awaited), verb(len(f.Awaited), "is", "are"))}
	}
	return &Problem{Reason: ReasonPodNotFound, Wait: true, Message: absentText(f.Awaited)}
}

func absentText(names []string) string {
	return fmt.Sprintf("waits for %s, which the workload is to have and which %s not there: the events of its StatefulSet tell why; unless its podManagementPolicy is Parallel the pods before have to be Ready first. To restore the others without, cancel this Restore and name them in spec.pods.names of another",
		someOf(names), verb(len(names), "is", "are"))
}
