package ask

import (
	"fmt"
	"slices"
	"strings"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Next says what the person who looks at a Restore can do now, a line each.
func Next(r *api.Restore, now time.Time) []string {
	at := func(command string) string {
		return fmt.Sprintf("kubectl stategraft restore %s %s -n %s", command, r.Name, r.Namespace)
	}
	cancel := at("cancel") + "   # gives up: " + opens(r)
	switch phase := r.Status.Phase; {
	case r.Spec.DryRun && phase.Final():
		return []string{fmt.Sprintf("kubectl delete restores.%s %s -n %s   # a dry run, which nobody needs any more", api.Group, r.Name, r.Namespace)}
	case phase == api.RestoreCompleted:
		return undoing(r, at, "back to the data from before, while they are kept")
	case phase == api.RestoreFailed && len(r.Status.Pending) > 0:
		return []string{
			fmt.Sprintf("%s not restored, and kept from starting without it. Settle the cause that the message names: a restore that goes through yet is counted.", are(r.Status.Pending)),
			cancel}
	case phase == api.RestoreFailed:
		return append([]string{"settle what the message names, then ask anew under another name; no pod is kept from starting"}, undoing(r, at, backWhereKept)...)
	case phase == api.RestoreCancelled:
		return append([]string{"the message says in what state the volumes are; where data were replaced in part, restore again before the database is used"}, undoing(r, at, backWhereKept)...)
	case phase == "" && now.Sub(r.CreationTimestamp.Time) > takenUp:
		return []string{"kubectl stategraft check   # nobody has taken it up yet: does the controller run?", cancel}
	case r.Spec.Suspend:
		return []string{at("resume"), cancel}
	}
	next := []string{at("wait"), at("suspend") + "   # begins nothing further", cancel}
	for i := range r.Status.Pods {
		if pod := &r.Status.Pods[i]; pod.Failures > 0 && pod.Phase == api.PodRestoring {
			next = append(next, fmt.Sprintf("kubectl logs -n %s %s -c stategraft-restore --previous   # why it has failed %s", r.Namespace, pod.Name, times(pod.Failures)))
		}
	}
	return next
}

// backWhereKept is of a Restore that did not go through.
const backWhereKept = "or back to the data from before, where the volume has kept them; the plan tells"

// undoing offers the way back where a pod may have one.
func undoing(r *api.Restore, at func(string) string, why string) []string {
	if !slices.ContainsFunc(r.Status.Pods, func(p api.PodRestore) bool { return p.MayHavePrevious() }) {
		return nil
	}
	return []string{at("undo") + "   # " + why}
}

// are has the names in a sentence: "cassandra-1 is", "cassandra-1, cassandra-2 are".
func are(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, ", ") + " are"
}

// opens is what cancelling does.
func opens(r *api.Restore) string {
	if len(r.Status.Pending) == 0 {
		return "nothing has been touched"
	}
	return "the databases start with what is on their volumes"
}

// Replacing are the pods whose data a cancellation could leave replaced in part.
func Replacing(r *api.Restore) []string {
	var names []string
	for _, pod := range byName(r.Status.Pods) {
		if pod.Phase == api.PodRestoring {
			names = append(names, pod.Name)
		}
	}
	return names
}
