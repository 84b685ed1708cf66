package deploy

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// pod reads manifests/pod.yaml.
func pod(name string) (*corev1.Pod, error) {
	text, err := embedded.ReadFile("manifests/pod.yaml")
	if err != nil {
		return nil, err
	}
	var p corev1.Pod
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		return nil, fmt.Errorf("reading pod.yaml: %w", err)
	}
	p.Name, p.Spec.Hostname = name, name
	return &p, nil
}

// awaitInjection waits until the API server calls the webhook for a namespace.
func (e *Env) awaitInjection(ctx context.Context, namespace string) error {
	p, err := pod("cassandra-probe")
	if err != nil {
		return err
	}
	return e.await(ctx, time.Minute, "a pod to be injected", func() (bool, error) {
		made, err := e.Client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && injected(made), err
	})
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
