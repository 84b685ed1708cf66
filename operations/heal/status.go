package heal

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func finished(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// unhindered tells whether the pod would be Ready but for us: all containers
// that are not ours are ready, or wait for a native sidecar of ours to start.
func unhindered(all []part) bool {
	begun := begun(all)
	for _, p := range all {
		switch {
		case p.own && p.init && sidecar(p.Container, true):
			if s := p.status; !begun && (s.Started == nil || !*s.Started) {
				return true // all before it have passed, none after it has begun
			}
		case p.own && !p.init:
		case sidecar(p.Container, p.init):
			if !p.status.Ready {
				return false
			}
		default: // an init container that has to end
			if t := p.status.State.Terminated; t == nil || t.ExitCode != 0 {
				return false
			}
		}
	}
	return true
}

// begun tells whether a container of the user's, init containers aside, has ever
// been started.
func begun(all []part) bool {
	return slices.ContainsFunc(all, func(p part) bool { return !p.init && !p.own && hasRun(p.status) })
}

// hasRun tells whether a container has ever been started.
func hasRun(s *corev1.ContainerStatus) bool {
	return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil || s.RestartCount > 0
}

// running tells whether all of our sidecars run.
func running(all []part) bool {
	return !slices.ContainsFunc(all, func(p part) bool {
		return p.own && sidecar(p.Container, p.init) && p.status.State.Running == nil
	})
}

func isReady(pod *corev1.Pod) bool {
	c := conditionOf(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// degraded is the pod's condition, if that is True.
func degraded(pod *corev1.Pod) *corev1.PodCondition {
	if c := conditionOf(pod, api.ConditionDegraded); c != nil && c.Status == corev1.ConditionTrue {
		return c
	}
	return nil
}

func isCause(reason string) bool {
	return reason == api.DegradedImagePull || reason == api.DegradedCrashLoop || reason == api.DegradedOutOfMemory
}
