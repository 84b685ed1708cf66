package rpo

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/workload"
)

// Sidecar says whether a pod can be backed up at all.
type Sidecar string

// The states of a sidecar.
const (
	SidecarInjected Sidecar = "injected"
	SidecarAdopted  Sidecar = "adopted"  // added while the pod ran (operations/adopt)
	SidecarDegraded Sidecar = "degraded" // a container of ours idles, or fails
	SidecarMissing  Sidecar = "missing"
)

// Pod is a pod that ought to be backed up, as far as that takes.
type Pod struct {
	Namespace, Name string
	// Labels are all of the pod's, or nil where they are not known: then no schedule
	// is found by its selector, but by Input.Selected and the Backups that it has made.
	Labels map[string]string
	// RPO is the value of the pod's own annotation api.AnnotationRPO; HasRPO whether
	// there is one.
	RPO    string
	HasRPO bool
	Owner  Owner
	// Created is when this pod was; the one of its name before may be much older.
	Created time.Time
	Kind    workload.Kind
	Sidecar Sidecar
	// Reason is why the sidecar is missing (coverage.Judge) or degraded, in a word.
	Reason string
}

// Owner is the object that controls a pod, or the pod itself where none does.
type Owner struct{ APIVersion, Kind, Name, UID string }

// OfPod takes over an injected pod, whole or as heal.ByObject keeps it. It is none
// that ought to be backed up (ok is false) where it is not injected, holds no data, or
// has ended.
func OfPod(pod *corev1.Pod) (p Pod, ok bool) {
	kind := workload.Kind(pod.Labels[api.LabelInjected])
	if !backedUp(kind) || kvs.Idle(pod) || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return Pod{}, false
	}
	p = known(pod, kind)
	p.Sidecar = SidecarInjected
	if adopted.Is(pod) {
		p.Sidecar = SidecarAdopted
	}
	at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == api.ConditionDegraded && c.Status == corev1.ConditionTrue
	})
	if at >= 0 {
		p.Sidecar, p.Reason = SidecarDegraded, pod.Status.Conditions[at].Reason
	}
	return p, true
}

// OfUncovered takes over a pod without our containers that ought to have them, as
// coverage.Judge has found, with its kind and reason.
func OfUncovered(pod metav1.Object, kind workload.Kind, reason string) (p Pod, ok bool) {
	if !backedUp(kind) {
		return Pod{}, false
	}
	p = known(pod, kind)
	p.Sidecar, p.Reason = SidecarMissing, reason
	return p, true
}

func known(pod metav1.Object, kind workload.Kind) Pod {
	p := Pod{Namespace: pod.GetNamespace(), Name: pod.GetName(), Owner: OwnerOf(pod), Created: pod.GetCreationTimestamp().Time, Kind: kind}
	p.RPO, p.HasRPO = pod.GetAnnotations()[api.AnnotationRPO]
	// One of ours alone is what is left of a pod's labels in the cache.
	if labels := pod.GetLabels(); len(labels) > 1 || len(labels) == 1 && labels[api.LabelInjected] == "" {
		p.Labels = labels
	}
	return p
}

// backedUp tells whether there may be something to back up in pods of a kind. Of Anna
// the kind does not tell the nodes that hold data from those that hold none.
func backedUp(kind workload.Kind) bool {
	return kind == workload.KindCassandra || kind == workload.KindAnna
}

// OwnerOf is a pod's controlling owner, or the pod itself.
func OwnerOf(pod metav1.Object) Owner {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return Owner{owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)}
	}
	return Owner{"v1", "Pod", pod.GetName(), string(pod.GetUID())}
}
