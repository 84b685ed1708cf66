package heal

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// pods writes to pods: the images of our containers, one condition, and the
// deletion of one that has never run. Each write names the pod that was judged, so
// that it does not meet another of the same name.
type pods struct {
	client client.Client
	now    func() time.Time
}

type namedImage struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// patchImages gives containers other images, if nobody has changed the pod since it
// was read; a conflict says that somebody has.
func (w *pods) patchImages(ctx context.Context, pod *corev1.Pod, cures []cure) error {
	var body struct {
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
		Spec struct {
			InitContainers []namedImage `json:"initContainers,omitempty"`
			Containers     []namedImage `json:"containers,omitempty"`
		} `json:"spec"`
	}
	body.Metadata.UID, body.Metadata.ResourceVersion = pod.UID, pod.ResourceVersion
	for _, c := range cures {
		list := &body.Spec.Containers
		if c.init {
			list = &body.Spec.InitContainers
		}
		*list = append(*list, namedImage{c.Name, c.image})
	}
	if err := w.client.Patch(ctx, target(pod), strategic(body)); err != nil {
		return fmt.Errorf("patching the images of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// setCondition sets the pod's condition. Conditions merge by type, so the
// kubelet's stay as they are, and it keeps those that are not its own
// (k8s.io/kubernetes/pkg/kubelet/status, mergePodStatus).
func (w *pods) setCondition(ctx context.Context, pod *corev1.Pod, status corev1.ConditionStatus, reason, message string) error {
	now := metav1.NewTime(w.now().Add(time.Second - 1).Truncate(time.Second)) // up: what counts from it is not to end too early
	condition := map[string]any{"type": api.ConditionDegraded, "status": status, "reason": reason,
		"message": workload.Clip(message, 500), "lastProbeTime": now}
	if had := conditionOf(pod, api.ConditionDegraded); had == nil || had.Status != status {
		condition["lastTransitionTime"] = now
	}
	body := map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"conditions": []any{condition}}}
	if err := w.client.Status().Patch(ctx, target(pod), strategic(body)); err != nil {
		return fmt.Errorf("setting a condition of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// remove deletes the pod if it is still as it was read.
func (w *pods) remove(ctx context.Context, pod *corev1.Pod) error {
	if err := w.client.Delete(ctx, target(pod), client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}); err != nil {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// target is an object to write to, as the client overwrites what it is given.
func target(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
}

func strategic(body any) client.Patch {
	text, err := json.Marshal(body)
	if err != nil {
		panic("encoding a patch: " + err.Error()) // of strings and times
	}
	return client.RawPatch(types.StrategicMergePatchType, text)
}
