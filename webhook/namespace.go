package webhook

import (
	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Namespace is what the decision needs of a pod's namespace. All of it comes
// from informers or, offline, from a file.
type Namespace struct {
	Name        string
	Labels      map[string]string
	Annotations map[string]string
	Quotas      []corev1.ResourceQuota
	LimitRanges []corev1.LimitRange

	// Unknown says that the namespace has not reached the informers yet. The API
	// server only calls for labelled ones, so it counts as labelled.
	Unknown bool
}

// Labelled tells whether the namespace asks for injection.
func (n Namespace) Labelled() bool {
	return n.Unknown || n.Labels[api.LabelInject] == api.InjectEnabled
}

// PodSecurity is the level of the Pod Security Standards that the namespace
// enforces (k8s.io/pod-security-admission/api).
func (n Namespace) PodSecurity() string { return n.Labels["pod-security.kubernetes.io/enforce"] }

// Namespaces finds a namespace without waiting for the network.
type Namespaces interface {
	Namespace(name string) Namespace
}
