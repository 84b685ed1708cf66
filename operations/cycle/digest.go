package cycle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// unknown stands for what a pod was started with where the ConfigMap has changed since, and
// nobody had looked before. It differs from all that a ConfigMap says.
const unknown = "unknown"

// digestOf is a digest of what a ConfigMap says.
func digestOf(m *corev1.ConfigMap) string {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(m.Data)) {
		fmt.Fprintf(sum, "%d %s %d %s\n", len(key), key, len(m.Data[key]), m.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(m.BinaryData)) {
		fmt.Fprintf(sum, "binary %d %s %d %s\n", len(key), key, len(m.BinaryData[key]), m.BinaryData[key])
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// note is the value of patches.AnnotationConfigStarted. It names the pod: in a template
// that a live pod was copied into it is of another, and says nothing.
func note(pod *corev1.Pod, digest string) string { return digest + " " + string(pod.UID) }

// startedWith reads it; empty where nothing is known of this pod.
func startedWith(pod *corev1.Pod) string {
	digest, uid, ok := strings.Cut(pod.Annotations[patches.AnnotationConfigStarted], " ")
	if !ok || uid != string(pod.UID) {
		return ""
	}
	return digest
}

// configMapOf is the ConfigMap of the pod's database; empty for none.
func configMapOf(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == patches.VolumeConfig && v.ConfigMap != nil {
			return v.ConfigMap.Name
		}
	}
	return ""
}

// propagation is how long the kubelet may take to bring a change of a ConfigMap into a pod:
// its own period and that of its cache, both a minute at most by default.
const propagation = 90 * time.Second

// firstSight tells what a pod that runs was started with, by what its ConfigMap says now;
// ok is false while its database has not been started. One that has changed since, or so
// shortly before that the pod may not have seen it, leaves that unknown.
func firstSight(pod *corev1.Pod, m *corev1.ConfigMap) (digest string, ok bool) {
	started, ok := startOf(pod)
	if !ok {
		return "", false
	}
	if changed := changeOf(m); changed.After(pod.CreationTimestamp.Time) && changed.After(started.Add(-propagation)) {
		return unknown, true
	}
	return digestOf(m), true
}

// startOf is when the first of the pod's own containers was started last, whether it runs
// or has ended by now.
func startOf(pod *corev1.Pod) (first time.Time, ok bool) {
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		var at time.Time
		switch {
		case workload.Own(s.Name):
			continue
		case s.State.Running != nil:
			at = s.State.Running.StartedAt.Time
		case s.State.Terminated != nil:
			at = s.State.Terminated.StartedAt.Time
		case s.LastTerminationState.Terminated != nil:
			at = s.LastTerminationState.Terminated.StartedAt.Time
		default:
			continue
		}
		if !ok || at.Before(first) {
			first, ok = at, true
		}
	}
	return first, ok
}

// changeOf is when somebody last wrote what a ConfigMap says, as far as the API server has
// noted that: by whom is no matter. It may be late, where the same writer has changed
// something else since.
func changeOf(m *corev1.ConfigMap) time.Time {
	last := m.CreationTimestamp.Time
	for _, f := range m.ManagedFields {
		if f.Time == nil || f.FieldsV1 == nil || !f.Time.After(last) {
			continue
		}
		if bytes.Contains(f.FieldsV1.GetRawBytes(), []byte(`"f:data"`)) || bytes.Contains(f.FieldsV1.GetRawBytes(), []byte(`"f:binaryData"`)) {
			last = f.Time.Time
		}
	}
	return last
}
