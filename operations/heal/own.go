package heal

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// The injected containers, as patches/ names them (a test compares). Those of
// curable idle in any image that has a shell; the other two are init containers
// that stand before the database on purpose.
const (
	containerAgent    = workload.OwnPrefix + "agent"
	containerSnapshot = workload.OwnPrefix + "snapshot"
	containerMedusa   = workload.OwnPrefix + "medusa"
	containerSetup    = workload.OwnPrefix + "setup"
	containerRestore  = workload.OwnPrefix + "restore"
)

var curable = []string{containerAgent, containerSnapshot, containerMedusa}

// ours tells whether a container is one of ours by name and by command, as a
// user may name one of his own alike.
func ours(c *corev1.Container) bool {
	switch c.Name {
	case containerAgent, containerSnapshot, containerMedusa, containerSetup, containerRestore:
		return slices.ContainsFunc(c.Command, func(arg string) bool { return path.Base(arg) == "stategraft-agent" })
	}
	return false
}

// sidecar tells whether a container is an ordinary one or an init container that
// keeps running beside them.
func sidecar(c *corev1.Container, init bool) bool {
	return !init || c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// part is a container with its status.
type part struct {
	*corev1.Container
	status *corev1.ContainerStatus // zero value where there is none yet
	init   bool
	own    bool
}

var noStatus = &corev1.ContainerStatus{}

// parts are the containers of a pod in the order in which they start. Ephemeral ones, of
// which adoption makes ours, are none: they have no say in whether the pod is Ready.
func parts(pod *corev1.Pod) []part {
	all := make([]part, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	add := func(containers []corev1.Container, statuses []corev1.ContainerStatus, init bool) {
		for i := range containers {
			p := part{Container: &containers[i], status: noStatus, init: init, own: ours(&containers[i])}
			for j := range statuses {
				if statuses[j].Name == p.Name {
					p.status = &statuses[j]
				}
			}
			all = append(all, p)
		}
	}
	add(pod.Spec.InitContainers, pod.Status.InitContainerStatuses, true)
	add(pod.Spec.Containers, pod.Status.ContainerStatuses, false)
	return all
}

// usersImage tells whether the image is that of a container which is not ours.
func usersImage(all []part, image string) bool {
	return slices.ContainsFunc(all, func(p part) bool { return !p.own && p.Image == image })
}

// idles tells whether the container was healed: it runs in an image that is not
// its own. The snapshot server's own is the database's.
func idles(all []part, p part) bool {
	if !p.own || !slices.Contains(curable, p.Name) {
		return false
	}
	return usersImage(all, p.Image) != (p.Name == containerSnapshot)
}

// envBackup names the backup in the restore container (patches.EnvBackup).
const envBackup = "STATEGRAFT_BACKUP"

// restorePending tells whether the pod is to be restored and is not yet: then it
// is nobody's to touch. Another backup that is asked for on a live pod is one too,
// until that is answered: from then on it is up to the Restore that came of it, which
// needs a sidecar that runs, or nothing came of it. The container goes by its name
// alone, to be on the safe side.
func restorePending(pod *corev1.Pod, all []part) bool {
	if slices.ContainsFunc(pod.Spec.SchedulingGates, gateOfRestore) {
		return true
	}
	asked, ok := pod.Annotations[api.AnnotationRestore]
	ok = ok && !answered(pod, asked)
	for _, p := range all {
		if p.Name != containerRestore || !p.init {
			continue
		}
		if done := p.status.State.Terminated; done == nil || done.ExitCode != 0 {
			return true
		}
		return ok && !slices.ContainsFunc(p.Env, func(v corev1.EnvVar) bool { return v.Name == envBackup && v.Value == asked })
	}
	return ok
}

func gateOfRestore(g corev1.PodSchedulingGate) bool { return g.Name == api.GateRestore }

// answered tells whether the annotation was answered for this value. In place of one
// that names no backup there is its beginning and a hash (operations/request).
func answered(pod *corev1.Pod, asked string) bool {
	answer, ok := pod.Annotations[api.AnnotationRestoreAnswer]
	if !ok || strings.HasPrefix(answer, asked+": ") {
		return ok
	}
	sum := sha256.Sum256([]byte(asked))
	return strings.HasPrefix(answer, workload.Short(asked)+" "+hex.EncodeToString(sum[:4])+": ")
}

// ownerOf is the pod's controlling owner, or the pod itself where nobody made it.
func ownerOf(pod *corev1.Pod) (owner corev1.ObjectReference, controlled bool) {
	for _, r := range pod.OwnerReferences {
		if r.Controller != nil && *r.Controller {
			return corev1.ObjectReference{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: pod.Namespace, Name: r.Name, UID: r.UID}, true
		}
	}
	return referenceTo(pod), false
}

func referenceTo(pod *corev1.Pod) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}
