// Package scope says which namespaces our controllers act in. The chart has the
// same twice, for the API server: in the namespaceSelector of the webhook
// configuration and in the policy controller-secrets.stategraft.io.
package scope

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// system are the namespaces that Kubernetes makes for itself. Without them a
// cluster does not start, so nothing of ours goes into them.
var system = []string{metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"}

// LeftOut tells whether a namespace is left alone whatever its label says: one of
// Kubernetes' own, or own, which is that of Stategraft.
func LeftOut(namespace, own string) bool {
	return namespace == own || slices.Contains(system, namespace)
}

// Asks tells whether the pods of a namespace are to be injected: it carries the
// label and is not left out.
func Asks(namespace metav1.Object, own string) bool {
	return namespace.GetLabels()[api.LabelInject] == api.InjectEnabled && !LeftOut(namespace.GetName(), own)
}
