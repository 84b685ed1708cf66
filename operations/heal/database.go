package heal

import (
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// databaseImage is the image of the pod's database: it is on the node, as the
// database runs or is about to. Where it cannot be told any more which container
// that is, the first will do. fallback are the annotations of the namespace.
func databaseImage(pod *corev1.Pod, fallback map[string]string) (string, error) {
	var users []*corev1.Container
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; !ours(c) && !workload.Own(c.Name) {
			users = append(users, c)
		}
	}
	switch len(users) {
	case 0:
		return "", fmt.Errorf("pod %s has no container but ours", pod.Name)
	case 1:
		return users[0].Image, nil
	}
	w, err := recognize(pod, fallback)
	if err != nil {
		return "", err
	}
	for _, c := range users {
		if c.Name == w.Container || w.Container == "" && w.Kind != workload.KindNone { // equals, as executors are
			return c.Image, nil
		}
	}
	return users[0].Image, nil
}

// volumeConfig is the volume with the database's own configuration (patches.VolumeConfig).
const volumeConfig = workload.OwnPrefix + "config"

// needsUs tells whether the pod is given more by us than its backup: without its
// configuration or its node's network the database would be another, or none. Such
// a pod is never admitted without us for now. fallback are the annotations of the
// namespace.
func needsUs(pod *corev1.Pod, fallback map[string]string) bool {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == volumeConfig {
			return true
		}
	}
	network, _ := annotation(pod.Annotations, fallback, api.AnnotationHostNetwork)
	return network == "true"
}

// recognize asks what the pod is, as admission did.
func recognize(pod *corev1.Pod, fallback map[string]string) (workload.Workload, error) {
	plain := *pod
	plain.Labels = maps.Clone(pod.Labels)
	delete(plain.Labels, api.LabelInject) // what was put on later makes no other container the database
	text, err := json.Marshal(&plain)
	if err != nil {
		return workload.Workload{}, fmt.Errorf("encoding pod %s: %w", pod.Name, err)
	}
	parsed, err := workload.Parse(text)
	if err != nil {
		return workload.Workload{}, fmt.Errorf("reading pod %s: %w", pod.Name, err)
	}
	return workload.Recognize(parsed, hints(pod.Annotations, fallback)).Workload, nil
}

// hints are what annotations say of a pod, its own before the namespace's.
func hints(own, fallback map[string]string) workload.Hints {
	container, _ := annotation(own, fallback, api.AnnotationContainer)
	volume, _ := annotation(own, fallback, api.AnnotationDataVolume)
	return workload.Hints{NamespaceLabelled: true, AnyUID: true, Container: container, DataVolume: volume}
}

func annotation(own, fallback map[string]string, key string) (value string, ok bool) {
	if value, ok = own[key]; ok {
		return value, true
	}
	value, ok = fallback[key]
	return value, ok
}
