package cycle

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/operations/telling"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of the events, a closed set: on the workload.
const (
	eventOutdated = "ConfigOutdated"    // pods go on with what their ConfigMap said before
	eventRestart  = "ConfigRestart"     // a pod is re-created for it
	eventHeld     = "ConfigRestartHeld" // and cannot be for now
)

// noteLimit is less than an event's note may have (k8s.io/api/events/v1).
const noteLimit = 900

// writer writes on pods, evicts them, and writes events.
type writer struct {
	client client.Client
	events events.EventRecorder
}

// started writes on the very pod what it was started with.
func (w *writer) started(ctx context.Context, pod *corev1.Pod, digest string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{patches.AnnotationConfigStarted: note(pod, digest)}}})
	if err != nil {
		return fmt.Errorf("encoding an annotation: %w", err)
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := w.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, body)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing on pod %s/%s what it was started with: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// evict has the very pod evicted, if the PodDisruptionBudgets allow it. Its error is the
// API server's.
func (w *writer) evict(ctx context.Context, pod *corev1.Pod) error {
	return w.client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
}

// say writes an event on the workload, or on the pod where nobody makes it.
func (w *writer) say(g *group, namespace, kind, reason, text string) {
	about := &corev1.ObjectReference{APIVersion: g.owner.version, Kind: g.owner.kind, Namespace: namespace, Name: g.owner.name, UID: types.UID(g.owner.uid)}
	if g.owner == (owner{}) {
		pod := g.members[0].pod
		about = &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod.Name, UID: pod.UID}
	}
	w.events.Eventf(about, nil, kind, reason, telling.Action("Cycle", text), "%s", workload.Clip(text, noteLimit))
}
