package replay

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of the condition, a closed set.
const (
	ReasonReplayed   = "Replayed"   // all keys are written again
	ReasonNothing    = "Nothing"    // nothing is to be
	ReasonGivenUp    = "GivenUp"    // the Restore is cancelled, or not there any more
	ReasonRestoring  = "Restoring"  // the backup is fetched
	ReasonReplaying  = "Replaying"  // keys are being written
	ReasonOthers     = "Others"     // other nodes of the cluster have yet to write theirs
	ReasonFailed     = "Failed"     // what waiting does not make better
	ReasonNotTelling = "NotTelling" // the sidecar does not answer
)

// verdict is what the condition is to be.
type verdict struct {
	ready   bool
	reason  string
	message string
}

// gated tells whether a pod waits to be told that its keys are written.
func gated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == api.ConditionReplayed })
}

// asked is what the pod's restore container was asked for.
type asked struct {
	id     string // of a Restore; empty for an annotation of the template
	backup string
	source string
	action string
}

func askedOf(pod *corev1.Pod) (a asked, ok bool) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name != patches.ContainerRestore {
			continue
		}
		for _, v := range c.Env {
			switch v.Name {
			case api.EnvRestoreID:
				a.id = v.Value
			case patches.EnvBackup:
				a.backup = v.Value
			case patches.EnvRestoreSource:
				a.source = v.Value
			case patches.EnvRestoreAction:
				a.action = v.Value
			}
		}
		return a, true
	}
	return a, false
}

// restoreOf is the name of the Restore that asked; empty for none.
func (a asked) restoreOf() string {
	name, _, _ := strings.Cut(a.id, "/")
	return name
}

// answer is what the sidecar has said, or why it has not.
type answer struct {
	report node.Report
	err    error
}

// judge is what the condition of a gated pod is to be. The Restore is that which asked, or
// nil where there is none.
func judge(pod *corev1.Pod, r *api.Restore, a answer) verdict {
	want, ok := askedOf(pod)
	switch {
	case !ok:
		return verdict{true, ReasonNothing, "the pod has no restore container"}
	case want.action != "" && want.action != string(api.ActionRestore):
		return verdict{true, ReasonNothing, "no key is to be written again"}
	case want.id != "":
		return judgeRestore(pod, want, r, a)
	}
	v := judgeReplay(a, func(replay *node.Replay) bool { return replay.ID == want.template() || replay.Backup == want.backup })
	if v.reason == ReasonFailed {
		v.message += ". The pod stays without clients until it is created anew with another backup in annotation " + api.AnnotationRestore + ", or without that annotation, in its template"
	}
	return v
}

// template is the ID of a restore that the template asks for (node.Done).
func (a asked) template() string {
	if a.source == "" {
		return a.backup
	}
	return a.backup + "@" + a.source
}

// judgeRestore is for a pod of a Restore. Its keys are complete when those of all nodes are
// written, as they go where the ring puts them: the Restore knows.
func judgeRestore(pod *corev1.Pod, want asked, r *api.Restore, a answer) verdict {
	if r == nil || r.Status.ID != want.id {
		return verdict{true, ReasonGivenUp, fmt.Sprintf("there is no Restore %s any more that asked for this", workload.Short(want.restoreOf()))}
	}
	at := r.Status.Pod(pod.Name)
	switch {
	case at == nil, at.Phase == api.PodCancelled:
		return verdict{true, ReasonGivenUp, fmt.Sprintf("Restore %s was cancelled: what it has not written is missing", r.Name)}
	case at.Phase == api.PodRestored:
		return verdict{true, ReasonReplayed, "the keys of all nodes are written again"}
	case at.Phase == api.PodReplayed:
		return verdict{false, ReasonOthers, "its keys are written, and those of others not yet: " + r.Status.Message}
	}
	v := judgeReplay(a, func(replay *node.Replay) bool { return replay.ID == r.Status.ReplayID() })
	if v.ready {
		v = verdict{false, ReasonOthers, "its keys are written, and Restore " + r.Name + " has yet to take note"}
	}
	return v
}

// judgeReplay goes by what the sidecar tells.
func judgeReplay(a answer, same func(*node.Replay) bool) verdict {
	replay := a.report.Replay
	switch {
	case a.err != nil:
		return verdict{false, ReasonNotTelling, "the sidecar does not answer: " + a.err.Error()}
	case replay == nil || !same(replay):
		return verdict{false, ReasonRestoring, "the keys of the backup are not being written yet"}
	}
	switch replay.Phase {
	case node.ReplayDone:
		return verdict{true, ReasonReplayed, fmt.Sprintf("%d keys of backup %s are written again", replay.Keys, workload.Short(replay.Backup))}
	case node.ReplayFailed:
		return verdict{false, ReasonFailed, "not all keys can be written again: " + replay.Message}
	case node.ReplayReplaying:
		return verdict{false, ReasonReplaying, fmt.Sprintf("%d of %d keys of backup %s are written again", replay.Keys, replay.Total, workload.Short(replay.Backup))}
	}
	return verdict{false, ReasonRestoring, "waits: " + replay.Message}
}
