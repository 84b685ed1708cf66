package patches

import (
	"fmt"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// tidyAfter is how long the database has to answer until the data from before a
// restore go.
const tidyAfter = "24h"

// impossible tells why a pending order cannot be carried out on the pod.
func impossible(pod *workload.Pod, w *workload.Workload, o *api.Order) error {
	if !o.Pending {
		return nil
	}
	switch {
	case !w.HoldsData():
		return &Conflict{workload.ReasonNothingToRestore, fmt.Sprintf(
			"%s (%s) keeps no data, so there is nothing to restore", w.Kind, w.Role)}
	case pod.Spec.NodeName != "" && !gated(pod):
		// The API server refuses a pod with both.
		return &Conflict{workload.ReasonCannotRestore, fmt.Sprintf(
			"the pod has to wait for the others at scheduling gate %s, and its template names its node (spec.nodeName %s); use a node selector",
			api.GateRestore, workload.Short(pod.Spec.NodeName))}
	case joins(o) && w.Kind == workload.KindCassandra:
		return checkTokens(o)
	}
	return nil
}

// ordered gives the pod what a pending order needs beside the restore container.
func (b *builder) ordered() {
	if !gated(b.pod) {
		// It comes back at once, and has to wait until all others have gone down.
		list(b, "/spec/schedulingGates", b.pod.Spec.Gates != nil, []Gate{{api.GateRestore}})
	}
	if joins(&b.s.Order) && b.w.Kind == workload.KindCassandra {
		b.join()
	}
}

func gated(pod *workload.Pod) bool {
	for _, gate := range pod.Spec.Gates {
		if gate.Name == api.GateRestore {
			return true
		}
	}
	return false
}

// orderEnv are the variables of a pending order.
func (b *builder) orderEnv() []EnvVar {
	o := &b.s.Order
	env := append(make([]EnvVar, 0, len(restoreEnv)), value(api.EnvRestoreID, o.ID))
	switch o.Action {
	case api.ActionEmpty:
		env = append(env, value(EnvRestoreAction, string(o.Action)))
	case api.ActionUndo:
		env = append(env, value(EnvRestoreAction, string(o.Action)), value(EnvRestoreUndo, o.UndoID))
	default:
		env = append(env, value(EnvBackup, o.Backup), value(EnvRestorePrefix, o.Prefix))
		env = append(env, value(EnvRestoreSource, b.orderSource()))
	}
	if o.Mode == api.Remote {
		env = append(env, value(EnvRestoreMode, string(o.Mode)))
	}
	if o.Keep != api.KeepNever {
		env = append(env, value(EnvKeepPrevious, string(o.Keep)))
	}
	return nonEmpty(env)
}

// orderSource is the node of the backup that the pod gets, where it would not take that
// one by itself. A pod of Anna's, which may get several or none, is told in any case.
func (b *builder) orderSource() string {
	o := &b.s.Order
	if o.Node == b.pod.Metadata.Name && !b.hostNetwork && b.w.Kind == workload.KindCassandra {
		return ""
	}
	return o.Node // on a host network a pod is known by its node's address, not by its name
}
