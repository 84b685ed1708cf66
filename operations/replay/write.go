package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/telling"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of the events, a closed set: on pods.
const (
	eventReplayed = "StategraftReplayed"
	eventFailed   = "StategraftReplayFailed"
	eventGivenUp  = "StategraftReplayGivenUp"
)

// againEvery is how often a condition is written of which only the words change.
const againEvery = 15 * time.Second

// messageLimit keeps a pod small.
const messageLimit = 500

func conditionOf(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == api.ConditionReplayed {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// write writes the condition where it changes, and tells of it where that is the end.
func (r *runner) write(ctx context.Context, pod *corev1.Pod, v verdict) error {
	status := corev1.ConditionFalse
	if v.ready {
		status = corev1.ConditionTrue
	}
	message := workload.Clip(workload.Printable(strings.Join(strings.Fields(v.message), " ")), messageLimit)
	now, had := metav1.NewTime(r.clock().Truncate(time.Second)), conditionOf(pod)
	same := had != nil && had.Status == status && had.Reason == v.reason
	if same && (had.Message == message || now.Sub(had.LastProbeTime.Time) < againEvery) {
		return nil
	}
	condition := map[string]any{"type": api.ConditionReplayed, "status": status, "reason": v.reason, "message": message, "lastProbeTime": now}
	if had == nil || had.Status != status {
		condition["lastTransitionTime"] = now
	}
	// Conditions merge by type, so the kubelet's stay as they are. The UID sees to it that
	// this is the pod that was looked at.
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"conditions": []any{condition}}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := r.writer.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, text)); err != nil {
		return fmt.Errorf("setting a condition of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if !same {
		r.tell(pod, v.reason, message)
	}
	return nil
}

// tell writes an event.
func (r *runner) tell(pod *corev1.Pod, reason, message string) {
	kind, event := corev1.EventTypeNormal, ""
	switch reason {
	case ReasonReplayed:
		event = eventReplayed
	case ReasonGivenUp:
		kind, event = corev1.EventTypeWarning, eventGivenUp
	case ReasonFailed:
		kind, event = corev1.EventTypeWarning, eventFailed
	default:
		return
	}
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
	r.events.Eventf(&about, nil, kind, event, telling.Action("Replay", message), "%s", message)
}
