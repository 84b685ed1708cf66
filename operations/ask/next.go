package ask

import (
	"fmt"
	"slices"
	"strings"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Next says what the person who looks at a Restore can do now, a line each; replaced
// is of Replaced, or nil where the other Restores are not known.
func Next(r *api.Restore, replaced map[string]string, now time.Time) []string {
	at := func(command string, pods ...string) string {
		named := ""
		for _, pod := range pods {
			named += " pod/" + pod
		}
		return fmt.Sprintf("kubectl stategraft restore %s %s%s -n %s", command, r.Name, named, r.Namespace)
	}
	cancel := at("cancel") + "   # gives up: " + opens(r)
	switch phase := r.Status.Phase; {
	case r.Spec.DryRun && phase.Final():
		return []string{fmt.Sprintf("kubectl delete restores.%s %s -n %s   # a dry run, which nobody needs any more", api.Group, r.Name, r.Namespace)}
	case phase == api.RestoreCompleted:
		return undoing(r, replaced, at, "back to the data from before, while they are kept")
	case phase == api.RestoreFailed && len(r.Status.Pending) > 0:
		return []string{
			fmt.Sprintf("%s not restored, and kept from starting without it. Settle the cause that the message names: a restore that goes through yet is counted.", are(r.Status.Pending)),
			cancel}
	case phase == api.RestoreFailed:
		return append([]string{"settle what the message names, then ask anew under another name; no pod is kept from starting"}, undoing(r, replaced, at, backWhereKept)...)
	case phase == api.RestoreCancelled:
		return append(afterCancel(r), undoing(r, replaced, at, backWhereKept)...)
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

// afterCancel tells apart what needs a new restore and what does not.
func afterCancel(r *api.Restore) []string {
	pods := endangered(r)
	switch {
	case len(pods) > 0:
		backup := ""
		if r.Status.Backup != "" {
			backup = " --backup " + Clean(r.Status.Backup)
		}
		return []string{
			fmt.Sprintf("restore %s again, from this backup or another, before the database is used:", strings.Join(pods, ", ")),
			fmt.Sprintf("kubectl stategraft restore%s pod/%s -n %s", backup, strings.Join(pods, " pod/"), r.Namespace)}
	case untouched(r):
		return []string{"nothing: no pod was touched. To restore after all, ask anew under another name"}
	case len(Volumes(r)) > 0:
		return []string{"what each pod's message, above, asks for; to restore after all, ask anew under another name"}
	}
	return []string{fmt.Sprintf("kubectl -n %s get events --field-selector involvedObject.kind=Pod   # in what state the volumes are; restore again what is replaced in part", r.Namespace)}
}

// undoing offers the way back where a pod may have one, and says where it is gone.
// Pods are named where not all have it.
func undoing(r *api.Restore, replaced map[string]string, at func(string, ...string) string, why string) []string {
	may, had, by := previousOf(r, replaced)
	var lines []string
	switch {
	case len(may) > 0 && len(had) > 0:
		lines = append(lines, at("undo", may...)+"   # "+why)
	case len(may) > 0:
		lines = append(lines, at("undo")+"   # "+why)
	}
	if len(had) > 0 {
		lines = append(lines, fmt.Sprintf("no undo of %s: what was kept from before was replaced by Restore %s (restore show tells whether that one can be undone)",
			strings.Join(had, ", "), strings.Join(by, ", ")))
	}
	return lines
}

// UndoHint is how to go back on a Restore that has completed; empty where nothing is
// kept.
func UndoHint(r *api.Restore) string {
	if r.Status.Phase != api.RestoreCompleted || !slices.ContainsFunc(r.Status.Pods, func(p api.PodRestore) bool { return p.Previous }) {
		return ""
	}
	return fmt.Sprintf("The data from before are kept for a while; back to them: kubectl stategraft restore undo %s -n %s", r.Name, r.Namespace)
}

// Stands is the last that is known of a Restore, in a line: phase, reason, message.
func Stands(r *api.Restore) string {
	if r == nil || r.Status.Phase == "" {
		return "nobody has taken it up"
	}
	s := &r.Status
	text := string(s.Phase)
	if s.Progress.Pods != "" && !s.Phase.Final() {
		text += ", pods " + s.Progress.Pods
	}
	if s.Message == "" {
		return text
	}
	for _, c := range s.Conditions {
		if c.Message == s.Message && c.Reason != "" && c.Reason != string(s.Phase) {
			text += ", " + Clean(c.Reason)
			break
		}
	}
	return text + ": " + Clean(s.Message)
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
