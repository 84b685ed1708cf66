package status

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/ask/adopt"
)

// adoptions tells of pods of a namespace that were given containers as they ran what is the
// matter with those: that none serves, or that nobody goes on with them.
func (s *Status) adoptions(ns *corev1.Namespace, pods []corev1.Pod) {
	for i := range pods {
		pod := &pods[i]
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if ended || adopt.Injected(pod) || !adopted.Is(pod) {
			continue
		}
		parts := adopted.Parts(pod)
		switch serving := adopted.Serving(parts); {
		case pod.Labels[api.LabelInjected] == "" && !asked(ns, pod):
			s.Adoptions = append(s.Adoptions, fmt.Sprintf("%s/%s: its adoption has begun, and nobody asks for it any more (%s); what was added stays until the pod is created anew", pod.Namespace, pod.Name, says(pod)))
		case pod.Labels[api.LabelInjected] == "" || serving == nil || serves(parts, serving):
		default:
			s.Adoptions = append(s.Adoptions, fmt.Sprintf("%s/%s: %s %s, and until one runs the pod is not backed up", pod.Namespace, pod.Name, serving.Container.Name, adopt.Does(serving)))
		}
	}
}

// says is what a pod's annotation says of adoption.
func says(pod *corev1.Pod) string {
	if value, ok := pod.Annotations[api.AnnotationAdopt]; ok {
		return ask.Clean(value)
	}
	return "no " + api.AnnotationAdopt
}

// serves tells whether a part of the role runs: an older one does until the newest takes over.
func serves(parts []adopted.Part, serving *adopted.Part) bool {
	return slices.ContainsFunc(parts, func(p adopted.Part) bool { return p.Role == serving.Role && p.State() == adopted.Running })
}
