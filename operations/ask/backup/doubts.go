package backup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/scope"
	"github.com/stategraft/stategraft/workload"
)

// Doubts says, where it can be seen, why a Backup of the pods cannot be complete as
// they are now; empty where nothing speaks against it. The controller decides.
func Doubts(ctx context.Context, c client.Reader, namespace string, of api.BackupPods) string {
	ns := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: namespace}, ns); err == nil && !scope.Asks(ns, "") {
		return fmt.Sprintf("namespace %[1]s does not have the label %[2]s=%[3]s, so that its pods have no sidecars: kubectl label namespace %[1]s %[2]s=%[3]s, then give it --adopt (or kubectl stategraft adopt the pods), or re-create the pods once",
			namespace, api.LabelInject, api.InjectEnabled)
	}
	list, err := Live(ctx, c, namespace, of)
	if err != nil {
		return ""
	}
	var without []string
	for i := range list {
		if !sidecar(&list[i]) {
			without = append(without, list[i].Name)
		}
	}
	switch {
	case len(without) == 0:
		return ""
	case len(without) == len(list):
		return "none of the pods has a sidecar: with --adopt they are given theirs first, as they run; or re-create them once. kubectl stategraft check says why they have none"
	}
	return "it cannot be complete: " + shortened(without) + " without a sidecar; with --adopt given first, or re-create once. kubectl stategraft check says why"
}

// Live are the pods that are there of those of a Backup, in order.
func Live(ctx context.Context, c client.Reader, namespace string, of api.BackupPods) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, ask.Explain(err, "list", "pods", namespace, "")
	}
	live := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		return !meant(&pod, of) || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
	slices.SortFunc(live, func(a, b corev1.Pod) int { return ask.Compare(a.Name, b.Name) })
	return live, nil
}

// meant tells whether a pod that is there is one of those of a Backup.
func meant(pod *corev1.Pod, of api.BackupPods) bool {
	switch {
	case of.Workload != nil:
		ref := metav1.GetControllerOf(pod)
		return ref != nil && ref.Kind == "StatefulSet" && ref.Name == of.Workload.Name
	case of.Selector != nil:
		selector, err := metav1.LabelSelectorAsSelector(of.Selector)
		return err == nil && selector.Matches(labels.Set(pod.Labels))
	}
	return slices.Contains(of.Names, pod.Name)
}

func sidecar(pod *corev1.Pod) bool {
	return pod.Labels[api.LabelInjected] != "" || slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return workload.Own(c.Name) })
}
