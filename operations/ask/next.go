package ask

import (
	"fmt"
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
		return completed(r, at)
	case phase == api.RestoreFailed && len(r.Status.Pending) > 0:
		return []string{
			fmt.Sprintf("%s not restored, and kept from starting without it. Settle the cause that the message names: a restore that goes through yet is counted.", are(r.Status.Pending)),
			cancel}
	case phase == api.RestoreFailed:
		return []string{"settle what the message names, then ask anew under another name; no pod is kept from starting"}
	case phase == api.RestoreCancelled:
		return []string{"the message says in what state the volumes are; where data were replaced in part, restore again before the database is used"}
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

func completed(r *api.Restore, at func(string) string) []string {
	for i := range r.Status.Pods {
		if r.Status.Pods[i].Previous {
			return []string{at("undo") + "   # back to the data from before, while they are kept"}
		}
	}
	return nil
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
