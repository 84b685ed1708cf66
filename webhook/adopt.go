package webhook

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// Adopt decides on a pod that runs as Decide does on one that is created, and makes the
// ephemeral containers that give it what it would be injected with.
//
//	Decide says | containers  | outcome
//	inject      | made        | inject
//	inject      | none needed | inject, and none
//	inject      | conflict    | skip, the conflict's reason
//	any other   |             | as it is
//
// in.Pod is the pod as it is in the cluster. What was adopted before, its ephemeral
// containers and its label, makes no difference to the decision, nor do the quotas and limit
// ranges of its namespace: ephemeral containers have no resources that these could count or
// bound. The patch of the outcome is for a pod that is created, and says nothing here.
func Adopt(in Input, a patches.Adoption) (Outcome, []corev1.EphemeralContainer) {
	pod, err := workload.Parse(in.Pod)
	if err != nil {
		return unreadable(in, err), nil
	}
	in.Namespace.Quotas, in.Namespace.LimitRanges = nil, nil
	out, r := decideOnPod(pod, in)
	if out.Verdict != workload.Inject {
		return out, nil
	}
	containers, err := patches.Adopt(pod, out.Workload, r.settings, a)
	if err != nil {
		reason, message := workload.ReasonInternalError, err.Error()
		var conflict *patches.Conflict
		if errors.As(err, &conflict) {
			reason, message = conflict.Reason, conflict.Message
		}
		out.Decision, out.Patch = stop(out.Decision, reason, message), nil
		return out, nil
	}
	return out, containers
}
