package restore

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Budget looks at the PodDisruptionBudgets of the pods. Pods are deleted, not
// evicted, so that nobody else looks. While one does not allow as many disruptions
// as there are pods to take down, held says so. One all of whose pods are restored
// has nothing left to protect, and no number of it would ever let them go together:
// it is overridden, and override says that.
func Budget(f Facts) (override string, held *Problem) {
	pods := chosen(f)
	var names []string
	for i := range f.Budgets {
		b := &f.Budgets[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil { // the API server takes none such
			continue
		}
		taken, healthy := 0, 0
		for _, pod := range pods {
			if !selector.Matches(labels.Set(pod.Labels)) {
				continue
			}
			taken++
			if ready(pod) { // others are not counted as healthy (k8s.io/kubernetes/pkg/controller/disruption)
				healthy++
			}
		}
		switch {
		case taken == 0:
		case whole(f, b, selector, taken):
			names = append(names, b.Name)
		case held == nil && int(b.Status.DisruptionsAllowed) < healthy:
			held = &Problem{Reason: ReasonDisruptionBudget, Wait: true, Message: fmt.Sprintf(
				"waits for PodDisruptionBudget %s, which allows %s now, and %s would be taken down; it is overridden only where all of its pods are restored",
				b.Name, counted(int(b.Status.DisruptionsAllowed), "disruption"), counted(healthy, "ready pod"))}
		}
	}
	if len(names) > 0 {
		override = "All pods of PodDisruptionBudget " + someOf(names) + " are taken down together, against it"
	}
	return override, held
}

// whole tells whether the pods that are taken are all that the budget selects. It
// counts them itself; where nobody has counted yet the pods' kin are looked at.
func whole(f Facts, b *policyv1.PodDisruptionBudget, selector labels.Selector, taken int) bool {
	about := map[string]bool{}
	for _, pod := range f.Pods {
		about[pod.Name] = true
	}
	spared := func(pod *corev1.Pod) bool { return !about[pod.Name] && selector.Matches(labels.Set(pod.Labels)) }
	return !slices.ContainsFunc(f.Kin, spared) && int(b.Status.ExpectedPods) <= taken
}
