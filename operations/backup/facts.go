package backup

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/claims"
)

// Facts are what a Backup is accepted by.
type Facts struct {
	Backup      *api.Backup
	Now         time.Time
	Labelled    bool // the namespace
	Terminating bool // it is
	Pods        []*corev1.Pod
	Cluster     []*corev1.Pod          // where Pods are of Anna: all pods of the namespace that have sidecars
	Set         *appsv1.StatefulSet    // the workload, where it is one and there
	Reports     map[string]node.Report // of the pods that answered, by name
	Silent      map[string]error       // why the others did not
}

// Problem is why a Backup cannot be made. One to wait on may go away by itself.
type Problem struct {
	Reason  string
	Message string
	Wait    bool
}

func (p *Problem) Error() string { return p.Message }

// Reasons of a Problem, and so of the condition Accepted.
const (
	ReasonNamespaceNotLabelled = "NamespaceNotLabelled"
	ReasonNamespaceGoing       = "NamespaceTerminating"
	ReasonBadSpec              = "BadSpec"
	ReasonPodNotFound          = "PodNotFound"
	ReasonNoPods               = "NoPods"
	ReasonTooManyPods          = "TooManyPods"
	ReasonNotInjected          = "NotInjected"
	ReasonNotSupported         = "NotSupported"
	ReasonPrefixesDiffer       = "PrefixesDiffer"
	ReasonSidecarSilent        = "SidecarSilent"
	ReasonBusy                 = claims.ReasonBusy
)

// verdict is what the facts come to.
type verdict struct {
	problem *Problem
	prefix  string
	pods    []api.PodBackup
	added   []string        // of them, those that were not asked for: the rest of a cluster of Anna
	seen    map[string]seen // what the pods told, which is enough for them to begin
}
