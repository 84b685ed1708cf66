package restore

import (
	"context"
	"slices"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// A volume keeps the data from before one restore, the newest. What the status of
// older ones says of it is taken back: nobody can go back there any more. It is done
// as well as it can be; the volume itself is asked before an undo (planUndo).

// supersede takes it back from other Restores of pods that this one has restored.
func (r *reconciler) supersede(ctx context.Context, restore *api.Restore, pods []string) {
	if len(pods) == 0 {
		return
	}
	others, err := r.cluster.restores(ctx, restore.Namespace)
	if err != nil {
		r.log.Info("older Restores may still say that data from before are kept", "namespace", restore.Namespace, "restore", restore.Name, "error", err.Error())
		return
	}
	r.forgetPrevious(ctx, others, func(other *api.Restore, at *api.PodRestore) bool {
		is := restore.Status.Pod(at.Name)
		return other.Name != restore.Name && slices.Contains(pods, at.Name) && is != nil && is.Finished != nil && (at.Finished == nil || at.Finished.Before(is.Finished))
	})
}

// forgetRemoved takes it back where the volume does not list the data any more.
func (r *reconciler) forgetRemoved(ctx context.Context, f *Facts) {
	r.forgetPrevious(ctx, f.Others, func(other *api.Restore, at *api.PodRestore) bool {
		report, answered := f.Reports[at.Name]
		return answered && report.Size > 0 && other.Status.Phase.Final() &&
			!slices.ContainsFunc(report.Previous, func(p node.Previous) bool { return p.ID == other.Status.ID })
	})
}

// forgetPrevious writes the status of those of which it is so for a pod. One that is
// written by somebody else meanwhile is let be.
func (r *reconciler) forgetPrevious(ctx context.Context, all []api.Restore, gone func(*api.Restore, *api.PodRestore) bool) {
	for i := range all {
		changed := all[i].DeepCopy()
		changes := false
		for j := range changed.Status.Pods {
			if at := &changed.Status.Pods[j]; at.Previous && gone(&all[i], at) {
				at.Previous, changes = false, true
			}
		}
		if !changes {
			continue
		}
		if err := r.cluster.writeStatus(ctx, changed); err != nil {
			r.log.Info("a Restore still says that data from before are kept, which are not", "namespace", changed.Namespace, "restore", changed.Name, "error", err.Error())
			continue
		}
		all[i] = *changed
	}
}
