package kvs

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
)

// LabelPartOf is the label by which clusters of a namespace are told apart.
const LabelPartOf = "app.kubernetes.io/part-of"

// ConfigMap is the one that a pod reads its configuration from; empty for none.
func ConfigMap(pod *corev1.Pod) string {
	pod = adopted.View(pod)
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == patches.VolumeConfig && v.ConfigMap != nil {
			return v.ConfigMap.Name
		}
	}
	return ""
}

// Doubt tells why others, which Together counts as nodes of the cluster of these, may be
// of another one; empty for that they are not. Two clusters in a namespace, set up from one
// example, may both be without a label or have the same, and to restore the one would be
// to empty the other. What makes it sure that a node is one of these is that the same
// controller made it, that it reads the same ConfigMap (which names the peers), or, where
// there are no ConfigMaps to compare, a label of the same value.
func Doubt(these, others []*corev1.Pod) string {
	for _, other := range others {
		first := slices.IndexFunc(these, func(p *corev1.Pod) bool { return Together(p, other) })
		if first < 0 {
			continue
		}
		mine := these[first]
		if slices.ContainsFunc(these, func(p *corev1.Pod) bool { return Together(p, other) && sure(p, other) }) {
			continue
		}
		why := fmt.Sprintf("neither has the label %s", LabelPartOf)
		if a, b := ConfigMap(mine), ConfigMap(other); a != b {
			why = fmt.Sprintf("the one is configured by ConfigMap %s, the other by %s", cmp.Or(a, "none"), cmp.Or(b, "none"))
		}
		return fmt.Sprintf("pods %s and %s may be of one cluster of Anna, or of two: %s. Give the pods of each cluster a value of its own of that label in their templates, and create them anew; or, if it is one, name all of its pods",
			mine.Name, other.Name, why+labelled(mine))
	}
	return ""
}

// labelled says what their label is, where that has not been said.
func labelled(pod *corev1.Pod) string {
	if value := Cluster(pod); value != "" {
		return fmt.Sprintf(" (label %s is %s on both)", LabelPartOf, value)
	}
	if ConfigMap(pod) != "" {
		return fmt.Sprintf(" (neither has the label %s)", LabelPartOf)
	}
	return ""
}

// sure tells whether two nodes that may be of one cluster are.
func sure(a, b *corev1.Pod) bool {
	mine, its := metav1.GetControllerOf(a), metav1.GetControllerOf(b)
	switch {
	case mine != nil && its != nil && mine.UID == its.UID && mine.Name == its.Name:
		return true
	case ConfigMap(a) != "" && ConfigMap(b) != "":
		return ConfigMap(a) == ConfigMap(b)
	}
	return Cluster(a) != ""
}
