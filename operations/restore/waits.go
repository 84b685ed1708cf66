package restore

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/workload"
)

// Reasons of what may pass by itself, once pods are asked.
const (
	ReasonBackupRunning = "BackupRunning"
	ReasonSidecarSilent = "SidecarSilent"
	ReasonSidecarHealed = "SidecarHealed"
)

// waits tells what may pass by itself: a backup that runs on a pod, and a pod that
// is Ready and does not answer, so that nobody knows whether one does. One that is
// not Ready is not waited for: it may be what is to be mended.
func waits(f Facts) *Problem {
	if f.Restore.Spec.DryRun {
		if p := busy(f, chosen(f)); p != nil {
			return p
		}
		if p := lacks(f); p != nil {
			return p
		}
	}
	if f.Restore.Spec.Mode == api.Merge {
		if p := notReady(f); p != nil {
			return p
		}
	}
	var running, healed, silent []string
	var why error
	for _, pod := range chosen(f) {
		report, ok := f.Reports[pod.Name]
		switch {
		case report.BackupRunning:
			running = append(running, pod.Name)
		case !ok && ready(pod) && idles(pod):
			healed = append(healed, pod.Name)
		case !ok && ready(pod):
			silent = append(silent, pod.Name)
			if why == nil {
				why = f.Silent[pod.Name]
			}
		}
	}
	if len(running) > 0 {
		return &Problem{Reason: ReasonBackupRunning, Wait: true, Message: "waits for the backup that runs on " + someOf(running)}
	}
	if len(healed) > 0 {
		return &Problem{Reason: ReasonSidecarHealed, Wait: true, Message: fmt.Sprintf("waits for the sidecar of %s, whose image was replaced by the database's, as it could not be pulled or kept failing: it idles there and cannot answer, and the restore needs its image. Have that served (the pod's event StategraftHealed names the cause), then delete the pod (kubectl -n %s delete pod %s); where the next one has no sidecar, annotate its namespace with %s=%s and delete it again",
			someOf(healed), f.Restore.Namespace, strings.Join(healed[:min(len(healed), 3)], " "), api.AnnotationHeldBack, api.HeldBackIgnore)}
	}
	if len(silent) > 0 {
		message := "waits for an answer from the sidecar of " + someOf(silent)
		if why != nil {
			message += ": " + why.Error()
		}
		return &Problem{Reason: ReasonSidecarSilent, Wait: true, Message: message}
	}
	return nil
}

// idles tells whether the sidecar was healed (operations/heal): so that the pod could
// be Ready it was given an image of the database's, in which it does nothing.
func idles(pod *corev1.Pod) bool {
	sidecar := kvs.Sidecar(pod)
	return sidecar != nil && !usable(pod) && slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return !workload.Own(c.Name) && c.Image == sidecar.Image
	})
}
