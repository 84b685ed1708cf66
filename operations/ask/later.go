package ask

import (
	"slices"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Replaced tells by pod which later Restore replaced what a Restore had kept from
// before: a volume keeps the data of the last one only, and an undo takes them.
func Replaced(r *api.Restore, others []api.Restore) map[string]string {
	by := map[string]string{}
	last := map[string]*api.Restore{}
	for i := range others {
		other := &others[i]
		if other.Namespace != r.Namespace || other.Name == r.Name || other.Spec.DryRun || other.Spec.Mode == api.Merge || !after(other, r) {
			continue
		}
		for _, pod := range other.Status.Pods {
			if pod.Phase != api.PodRestored && pod.Phase != api.PodJoining || r.Status.Pod(pod.Name) == nil {
				continue
			}
			if was := last[pod.Name]; was == nil || after(was, other) { // the first is the one that did it
				last[pod.Name], by[pod.Name] = other, other.Name
			}
		}
	}
	return by
}

// after tells whether a was made later than b; of those of one second the names
// decide, as they do for the controller.
func after(a, b *api.Restore) bool {
	if n := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); n != 0 {
		return n > 0
	}
	return a.Name > b.Name
}

// previousOf are the pods that may have data from before, and those that had: with
// the Restores that replaced them.
func previousOf(r *api.Restore, replaced map[string]string) (may, had, by []string) {
	for _, pod := range byName(r.Status.Pods) {
		if !pod.MayHavePrevious() || r.Spec.Mode == api.Merge { // which replaces nothing
			continue
		}
		other, gone := replaced[pod.Name]
		if !gone {
			may = append(may, pod.Name)
			continue
		}
		had = append(had, pod.Name)
		if !slices.Contains(by, other) {
			by = append(by, other)
		}
	}
	return may, had, by
}
