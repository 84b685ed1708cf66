package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// triesOfLike is how many pods are looked at until none is found to make another after.
const triesOfLike = 3

// errNoLike says that there is no pod of the Backup to make another after.
var errNoLike = errors.New("no pod of the backed-up cluster is there that knows the storage")

// make makes the pod for a node of a Backup: after the node's own, or after another of
// the same Backup, as they are of one cluster.
func (w *world) make(ctx context.Context, j job) (*corev1.Pod, error) {
	annotations, err := w.annotations(ctx, j.backup.Namespace)
	if err != nil {
		return nil, err
	}
	names, err := w.injected(ctx, j.backup.Namespace)
	if err != nil {
		return nil, err
	}
	var why error
	tried := 0
	for _, name := range likely(j, names) {
		if tried++; tried > triesOfLike {
			break
		}
		like, err := w.pod(ctx, types.NamespacedName{Namespace: j.backup.Namespace, Name: name})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading pod %s: %w", name, err)
		}
		database, err := databaseOf(like, annotations)
		if err == nil {
			var pod *corev1.Pod
			if pod, err = build(like, database, j); err == nil {
				return pod, nil
			}
		}
		why = err
	}
	if why != nil {
		return nil, fmt.Errorf("%w: %w", errNoLike, why)
	}
	return nil, errNoLike
}

// likely are the pods of a Backup that are there, the node's own first.
func likely(j job, there []string) (names []string) {
	for i := range j.backup.Status.Pods {
		p := &j.backup.Status.Pods[i]
		if !slices.Contains(there, p.Name) {
			continue
		}
		if p.StorageNode() == j.node {
			names = slices.Insert(names, 0, p.Name)
		} else {
			names = append(names, p.Name)
		}
	}
	return names
}

// databaseOf finds the database's container, as admission did. fallback are the
// annotations of the namespace.
func databaseOf(pod *corev1.Pod, fallback map[string]string) (*corev1.Container, error) {
	plain := *pod
	plain.Labels = maps.Clone(pod.Labels)
	delete(plain.Labels, api.LabelInject) // what was put on later makes no other container the database
	text, err := json.Marshal(&plain)
	if err != nil {
		return nil, fmt.Errorf("encoding pod %s: %w", pod.Name, err)
	}
	parsed, err := workload.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", pod.Name, err)
	}
	said := func(key string) string {
		if value, ok := pod.Annotations[key]; ok {
			return value
		}
		return fallback[key]
	}
	decision := workload.Recognize(parsed, workload.Hints{NamespaceLabelled: true, AnyUID: true,
		Container: said(api.AnnotationContainer), DataVolume: said(api.AnnotationDataVolume)})
	if decision.Workload.Kind != workload.KindCassandra {
		return nil, fmt.Errorf("%w: pod %s is not recognised as Cassandra", errNotLike, pod.Name)
	}
	if c := container(pod, decision.Workload.Container); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("%w: the database's container of pod %s is not known", errNotLike, pod.Name)
}
