package lookup

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/workload"
)

// ended tells why the pod is of no use any more, or is empty. It is not restarted:
// a container that ends leaves the other waiting for nothing.
func ended(pod *corev1.Pod) string {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		why := string(pod.Status.Phase)
		if pod.Status.Reason != "" {
			why = pod.Status.Reason
		}
		return "the one before has ended (" + why + ")"
	}
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			text := fmt.Sprintf("its container %s has ended with status %d", s.Name, t.ExitCode)
			if t.Message != "" {
				text += ": " + workload.Clip(workload.Printable(t.Message), 200)
			}
			return text
		}
	}
	return ""
}

// holdup tells what the pod waits for, or is empty when its containers run.
func holdup(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "it is not scheduled: " + workload.Clip(workload.Printable(c.Message), 300)
		}
	}
	running := map[string]bool{}
	for _, s := range pod.Status.ContainerStatuses {
		running[s.Name] = s.State.Running != nil
		if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" {
			return workload.Clip(fmt.Sprintf("its container %s waits: %s %s", s.Name, w.Reason, workload.Printable(w.Message)), 300)
		}
	}
	waits := pod.Status.PodIP == ""
	for i := range pod.Spec.Containers {
		waits = waits || !running[pod.Spec.Containers[i].Name]
	}
	if waits {
		return "its containers do not run yet"
	}
	return ""
}
