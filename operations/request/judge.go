package request

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/restore"
	"github.com/stategraft/stategraft/workload"
)

// ask is what a pod asks for.
type ask struct{ value, source string }

// asked reads a pod's request. It is none where it was answered for its value.
func asked(pod metav1.Object) (a ask, ok bool) {
	annotations := pod.GetAnnotations()
	value, ok := annotations[api.AnnotationRestore]
	if !ok || strings.HasPrefix(annotations[api.AnnotationRestoreAnswer], key(value)+": ") {
		return ask{}, false
	}
	return ask{value, annotations[api.AnnotationRestoreSource]}, true
}

// answer is the text of the annotation that answers a value.
func answer(value, text string) string { return key(value) + ": " + workload.Clip(text, 900) }

// key stands for a value in an answer: itself, unless it is nothing that could be
// a backup's name. It may be as long as all of the annotations then.
func key(value string) string {
	if value == "" || restore.ValidBackup(value) == "" {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return workload.Short(value) + " " + hex.EncodeToString(sum[:4])
}

// ownRestore tells whether the pod was made with this annotation, and its own
// restore container is for it: the template's annotation asks for nothing now.
func ownRestore(pod *corev1.Pod, a ask) bool { return restore.TemplateBackup(pod) == a.value }

// refusal tells why a request cannot become a Restore, or is empty. template is the
// annotation of the owner's template: every new pod would have it too.
func refusal(pod *corev1.Pod, a ask, template string) string {
	if why := restore.ValidBackup(a.value); why != "" {
		return why
	}
	if a.source != "" {
		if why := restore.ValidNode(a.source); why != "" {
			return fmt.Sprintf("annotation %s: %s", api.AnnotationRestoreSource, why)
		}
	}
	if p := restore.CheckPod(pod); p != nil && !p.Wait {
		return p.Message
	}
	if template != "" {
		return fmt.Sprintf("the template of its workload asks for backup %s, and every pod that comes after it would ask for both; take annotation %s out of the template first", workload.Short(template), api.AnnotationRestore)
	}
	return ""
}

// groupOf names the pods that a pod belongs with: those of its owner, or itself.
func groupOf(pod metav1.Object) types.NamespacedName {
	name := "Pod/" + pod.GetName()
	if owner := metav1.GetControllerOf(pod); owner != nil {
		name = owner.Kind + "/" + owner.Name
	}
	return types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}
}
