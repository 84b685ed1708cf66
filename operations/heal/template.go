package heal

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// wouldInject tells whether pods of a StatefulSet are injected where nothing holds
// them back, and may be held back: not where they are to be restored, need us, or
// are injected all the same by an annotation.
func wouldInject(set *appsv1.StatefulSet, namespace map[string]string) (bool, error) {
	template := &set.Spec.Template
	for _, annotations := range []map[string]string{template.Annotations, namespace} {
		if _, ok := annotations[api.AnnotationRestore]; ok || annotations[api.AnnotationHeldBack] == api.HeldBackIgnore {
			return false, nil
		}
	}
	pod := corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: template.Spec}
	pod.Name = set.Name + "-0"
	pod.OwnerReferences = nil
	text, err := json.Marshal(&pod)
	if err != nil {
		return false, fmt.Errorf("encoding the template of StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	if _, own := annotation(template.Annotations, namespace, api.AnnotationConfigMap); own || needsUs(&pod, namespace) {
		return false, nil
	}
	parsed, err := workload.Parse(text)
	if err != nil {
		return false, fmt.Errorf("reading the template of StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	for i := range set.Spec.VolumeClaimTemplates {
		parsed.Claims = append(parsed.Claims, set.Spec.VolumeClaimTemplates[i].Name)
	}
	return workload.Recognize(parsed, hints(template.Annotations, namespace)).Verdict == workload.Inject, nil
}
