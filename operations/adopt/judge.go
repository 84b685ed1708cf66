package adopt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// Asks tells whether a pod is to be adopted, by its annotation or else its namespace's.
// Whether the namespace carries the label that allows it, scope.Asks tells. What cannot be
// understood asks for nothing.
func Asks(namespace, pod metav1.Object) bool {
	value, ok := pod.GetAnnotations()[api.AnnotationAdopt]
	if !ok {
		value = namespace.GetAnnotations()[api.AnnotationAdopt]
	}
	return value == api.AdoptRunning
}

// leastKubelet is since when every kubelet runs ephemeral containers: they are generally
// available since 1.25 (k8s.io/kubernetes CHANGELOG/CHANGELOG-1.25.md).
var leastKubelet = version.MustParseGeneric("1.25.0")

// Judge says why a pod cannot be adopted now, and what would settle it; nothing where it
// can. node is the pod's, nil where it is not known; out is what webhook.Adopt has made of
// the pod. What stays comes before what passes.
func Judge(pod *corev1.Pod, node *corev1.Node, out webhook.Outcome) (Reason, string) {
	if pod.DeletionTimestamp != nil {
		return ReasonBeingDeleted, "it is being deleted; the pod that follows it is injected"
	}
	if reason, text := verdict(pod, out); reason != "" {
		return reason, text
	}
	if pod.Status.Phase != corev1.PodRunning {
		return ReasonNotRunning, fmt.Sprintf("its phase is %q: adopted once it runs", pod.Status.Phase)
	}
	if reason, text := judgeNode(pod.Spec.NodeName, node); reason != "" {
		return reason, text
	}
	if !ready(pod) {
		return ReasonNotReady, "it is not Ready, and its database is not to be given more to do: adopted once it is"
	}
	return "", ""
}

// verdict is what speaks against a pod as its author has written it. Once its adoption has
// begun, a restore that is asked for waits for that (operations/request), and must not be
// waited for.
func verdict(pod *corev1.Pod, out webhook.Outcome) (Reason, string) {
	_, restore := pod.Annotations[api.AnnotationRestore]
	_, answered := pod.Annotations[api.AnnotationRestoreAnswer]
	begun := adopted.Is(pod) && pod.Labels[api.LabelInjected] == ""
	switch {
	case restore && !answered && !begun:
		return ReasonRestorePending, "a restore is asked for (annotation " + api.AnnotationRestore + "): it creates the pod anew, with its sidecars"
	case out.Verdict != workload.Inject:
		return Reason(cmp.Or(out.Reason, workload.ReasonInternalError)), cmp.Or(out.Message, "nobody says why")
	}
	return "", ""
}

// judgeNode says what of a node speaks against giving its pods more.
func judgeNode(name string, node *corev1.Node) (Reason, string) {
	if node == nil {
		return ReasonNodeNotReady, fmt.Sprintf("nothing is known of its node %q", name)
	}
	info := node.Status.NodeInfo
	if info.OperatingSystem != "" && info.OperatingSystem != string(corev1.Linux) {
		return ReasonWindows, fmt.Sprintf("its node %s runs %s: the containers are made for Linux", node.Name, info.OperatingSystem)
	}
	kubelet, err := version.ParseGeneric(info.KubeletVersion)
	if err != nil || kubelet.LessThan(leastKubelet) || node.Labels["type"] == "virtual-kubelet" {
		return ReasonOldKubelet, fmt.Sprintf("the kubelet of its node %s is %q, and ephemeral containers need one of v1.25 or newer that runs them itself: upgrade it, or have the pod created anew", node.Name, info.KubeletVersion)
	}
	if !holds(node, corev1.NodeReady) {
		return ReasonNodeNotReady, fmt.Sprintf("its node %s is not Ready, so nobody would start the containers", node.Name)
	}
	var short []string
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		if holds(node, kind) {
			short = append(short, string(kind))
		}
	}
	if len(short) > 0 {
		return ReasonNodePressure, fmt.Sprintf("its node %s has %s: adopted when that is over", node.Name, strings.Join(short, ", "))
	}
	return "", ""
}

func holds(node *corev1.Node, kind corev1.NodeConditionType) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
