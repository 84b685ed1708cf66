package adopt

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// labelAgain is how long after it the label of a pod is not written once more: whoever takes
// off what he does not know would be answered without end.
const labelAgain = time.Minute

// label has the other controllers find a pod whose containers run, or no longer find one in
// which none does. Who was quicker, or a pod that has gone, shows at the next look.
func (c *controller) label(ctx context.Context, one *candidate) {
	kind := ""
	if one.step.Do == DoLabel {
		kind = string(kindOf(one.facts.Parts))
	}
	now := c.Clock()
	if one.memory.until.After(now) {
		if one.step.Until = one.memory.until; one.step.Do == DoLabel {
			one.again()
		}
		return
	}
	if again := one.memory.written.Add(labelAgain); again.After(now) {
		one.step.Until = again
		return
	}
	err := c.server.label(ctx, one.pod, kind)
	switch {
	case err == nil:
		one.memory.succeed()
		one.memory.written = now
		log.FromContext(ctx).Info("label of an adopted pod written", "namespace", one.pod.Namespace, "pod", one.pod.Name, "kind", kind)
		if kind == "" {
			delete(one.memory.told, eventAdopted)
		} else {
			c.say(one, corev1.EventTypeNormal, eventAdopted, string(one.pod.UID), "its sidecars run, as ephemeral containers: it can be backed up as a pod that was injected can")
		}
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), errors.Is(err, context.Canceled):
		one.step.Until = c.Clock().Add(min(soon, c.Every)) // the watch is a little behind
	default:
		reason, text := one.reason, one.text
		c.putOff(ctx, one, fmt.Sprintf("the API server does not take a change of its label %s, by which it is found: %s", api.LabelInjected, workload.Clip(err.Error(), 600)), err)
		if one.step.Do == DoUnlabel {
			one.refuse(reason, text) // why nothing serves comes first
		}
	}
}

// kindOf is the database of an adopted pod: Cassandra's agent does not serve.
func kindOf(parts []adopted.Part) workload.Kind {
	for i := range parts {
		if parts[i].Role != patches.RoleAgent {
			return workload.KindCassandra
		}
	}
	return workload.KindAnna
}

// partsOf reads containers that are on no pod yet.
func partsOf(containers []corev1.EphemeralContainer) []adopted.Part {
	return adopted.Parts(&corev1.Pod{Spec: corev1.PodSpec{EphemeralContainers: containers}})
}
