package request

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of the events on pods, a closed set.
const (
	EventAsked   = "RestoreAsked"   // the annotation was seen
	EventMade    = "RestoreMade"    // there is a Restore
	EventRefused = "RestoreRefused" // there will be none, and why
	EventFailed  = "RestoreFailed"  // it came to nothing
)

// writer writes answers, events and Restores.
type writer struct {
	client client.Client
	events events.EventRecorder
}

func (w *writer) say(pod *corev1.Pod, kind, reason, format string, args ...any) {
	on := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	// A note may have 1 kB (k8s.io/api/events/v1).
	w.events.Eventf(on, nil, kind, reason, "Request", "%s", workload.Clip(fmt.Sprintf(format, args...), 900))
}

// answer writes the answer on the very pod that asked; nil removes it.
func (w *writer) answer(ctx context.Context, pod *corev1.Pod, text *string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]*string{api.AnnotationRestoreAnswer: text}}})
	if err != nil {
		panic("encoding a patch: " + err.Error()) // of strings
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := w.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("answering pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// withdraw has a Restore forget that a pod asked for it, so that the pod may ask
// again and get another.
func (w *writer) withdraw(ctx context.Context, r *api.Restore, rest string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": r.UID, "resourceVersion": r.ResourceVersion, "annotations": map[string]string{AnnotationAskedBy: rest}}})
	if err != nil {
		panic("encoding a patch: " + err.Error()) // of strings
	}
	target := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	if err := w.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("withdrawing from restore %s/%s: %w", r.Namespace, r.Name, err)
	}
	return nil
}
