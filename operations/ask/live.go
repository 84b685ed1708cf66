package ask

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Live finds the pods that are meant, as they are, in order and each once. Of a StatefulSet those that are there
// are enough.
func Live(ctx context.Context, c client.Reader, namespace string, targets []Target, selector string) ([]corev1.Pod, error) {
	var found []corev1.Pod
	switch {
	case selector != "" && len(targets) > 0:
		return nil, errors.New("names and a selector (-l) exclude one another")
	case selector != "":
		parsed, err := labels.Parse(selector)
		if err == nil && parsed.Empty() {
			err = errors.New("it selects every pod of the namespace; give a label")
		}
		if err != nil {
			return nil, fmt.Errorf("-l %s: %w", selector, err)
		}
		if found, err = selected(ctx, c, namespace, parsed); err != nil {
			return nil, err
		}
	case len(targets) == 0:
		return nil, errors.New("which pods? Give pod/NAME, statefulset/NAME or -l SELECTOR")
	}
	for _, target := range targets {
		more, err := liveOf(ctx, c, namespace, target)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	sort(found)
	return slices.CompactFunc(found, func(a, b corev1.Pod) bool { return a.Name == b.Name }), nil
}

func liveOf(ctx context.Context, c client.Reader, namespace string, target Target) ([]corev1.Pod, error) {
	if !target.StatefulSet {
		return named(ctx, c, namespace, target.Name)
	}
	owned, wanted, err := ownedBy(ctx, c, namespace, target.Name)
	switch {
	case err != nil:
		return nil, err
	case wanted == 0 && len(owned) == 0:
		return nil, fmt.Errorf("statefulset %s of namespace %s is scaled to 0: no pod of it runs", target.Name, namespace)
	case len(owned) == 0:
		return nil, fmt.Errorf("statefulset %s of namespace %s is to have %d pods and none of them is there: kubectl -n %s get events says why", target.Name, namespace, wanted, namespace)
	}
	return owned, nil
}
