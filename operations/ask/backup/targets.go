package backup

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

// Targets are the pods that a Backup is for.
type Targets struct {
	Pods     api.BackupPods
	Workload string // what their owner is called, for the Backup's name
	Note     string // what a person should know of the choice
}

// Resolve finds the pods that are meant. Of a StatefulSet the name is handed on: the
// controller settles which pods it is to have, also those that are not there.
func Resolve(ctx context.Context, c client.Reader, namespace string, targets []ask.Target, selector string) (*Targets, error) {
	if len(targets) == 1 && targets[0].StatefulSet && selector == "" {
		name := targets[0].Name
		if _, err := setOf(ctx, c, namespace, name); err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		return &Targets{Pods: api.BackupPods{Workload: &api.BackupWorkload{Kind: "StatefulSet", Name: name}}, Workload: name}, nil
	}
	var names []string
	var single []ask.Target
	workload := ""
	for _, target := range targets {
		if !target.StatefulSet {
			single = append(single, target)
			continue
		}
		set, err := setOf(ctx, c, namespace, target.Name)
		if err != nil {
			return nil, err
		}
		names = append(names, podsOf(set)...)
		workload = set.Name
	}
	out := &Targets{Workload: workload}
	if len(single) > 0 || selector != "" || len(targets) == 0 {
		found, err := ask.Resolve(ctx, c, namespace, append(single, sets(targets, selector)...), selector)
		if err != nil {
			return nil, err
		}
		out.Workload, out.Pods.Selector = found.Workload, found.Selector
		names = append(names, found.Names...)
	}
	if out.Pods.Selector == nil {
		slices.SortFunc(names, ask.Compare)
		out.Pods.Names = slices.Compact(names)
	}
	out.Note = others(ctx, c, namespace, names)
	return out, nil
}

// sets are the StatefulSets among the targets where there is a selector, too: that
// both were given is told in the same words.
func sets(targets []ask.Target, selector string) []ask.Target {
	if selector == "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(targets), func(t ask.Target) bool { return !t.StatefulSet })
}

func setOf(ctx context.Context, c client.Reader, namespace, name string) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, set); err != nil {
		return nil, ask.Within(ctx, c, namespace, ask.Explain(err, "get", ask.StatefulSets, namespace, name))
	}
	if set.Spec.Replicas != nil && *set.Spec.Replicas == 0 {
		return nil, fmt.Errorf("statefulset %s of namespace %s is scaled to 0: scale it up first, a backup needs its pods", name, namespace)
	}
	return set, nil
}

// podsOf are the names of the pods that a StatefulSet is to have.
func podsOf(set *appsv1.StatefulSet) []string {
	start, replicas := 0, 1
	if o := set.Spec.Ordinals; o != nil {
		start = int(o.Start)
	}
	if set.Spec.Replicas != nil {
		replicas = int(*set.Spec.Replicas)
	}
	var names []string
	for i := range replicas {
		names = append(names, set.Name+"-"+strconv.Itoa(start+i))
	}
	return names
}

// others says which pods of the same owners are left out: a backup is whole only with
// all nodes of the cluster. Who may not list pods is not told.
func others(ctx context.Context, c client.Reader, namespace string, names []string) string {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return ""
	}
	owners := map[string]bool{}
	for i := range list.Items {
		if ref := metav1.GetControllerOf(&list.Items[i]); ref != nil && slices.Contains(names, list.Items[i].Name) {
			owners[string(ref.UID)] = true
		}
	}
	var left []string
	for i := range list.Items {
		pod := &list.Items[i]
		if ref := metav1.GetControllerOf(pod); ref != nil && owners[string(ref.UID)] && !slices.Contains(names, pod.Name) {
			left = append(left, pod.Name)
		}
	}
	if len(left) == 0 {
		return ""
	}
	slices.SortFunc(left, ask.Compare)
	return fmt.Sprintf("Not in this backup: %s, of the same workload. A cluster is restored as a whole only from a backup of all its nodes.", shortened(left))
}

// shortened names the first of many.
func shortened(names []string) string {
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
