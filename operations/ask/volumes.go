package ask

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// danger begins what the controller says of a volume that may be half replaced.
const danger = "DANGER"

// untouched tells whether a Restore that is over had not stopped a pod yet. Its
// pods, if there are any, are as they were planned.
func untouched(r *api.Restore) bool {
	if !r.Status.Phase.Final() || meta.IsStatusConditionTrue(r.Status.Conditions, api.ConditionPrechecked) {
		return false
	}
	return !slices.ContainsFunc(r.Status.Pods, func(p api.PodRestore) bool {
		return p.Started != nil || strings.HasPrefix(p.Message, danger) ||
			slices.Contains([]api.PodPhase{api.PodStopping, api.PodWaiting, api.PodRestoring, api.PodJoining, api.PodRestored}, p.Phase)
	})
}

// Volumes says of each pod of a cancelled Restore in what state its volume is, what
// is dangerous first.
func Volumes(r *api.Restore) []string {
	if r.Status.Phase != api.RestoreCancelled || untouched(r) {
		return nil
	}
	var bad, good []string
	for _, pod := range byName(r.Status.Pods) {
		switch line := pod.Name + ": " + Clean(pod.Message); {
		case strings.HasPrefix(pod.Message, danger):
			bad = append(bad, line)
		case pod.Message != "":
			good = append(good, line)
		case pod.Phase == api.PodRestored:
			good = append(good, pod.Name+": restored")
		}
	}
	return append(bad, good...)
}

// endangered are the pods to restore again before their database is used.
func endangered(r *api.Restore) []string {
	var names []string
	for _, pod := range byName(r.Status.Pods) {
		if strings.HasPrefix(pod.Message, danger) {
			names = append(names, pod.Name)
		}
	}
	return names
}
