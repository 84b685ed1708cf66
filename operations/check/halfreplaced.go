package check

import (
	"fmt"
	"strings"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// danger stands before what the controller writes about a pod whose database was let
// start with data that may be half replaced (operations/restore/cancel.go).
const danger = "DANGER"

// judgeHalfReplaced finds pods that were let start in the middle of a restore that was
// given up, and that no other Restore has restored since. The Restore itself is over,
// so nobody else tells of them.
func judgeHalfReplaced(all []api.Restore) []Finding {
	var findings []Finding
	for i := range all {
		r := &all[i]
		for j := range r.Status.Pods {
			pod := &r.Status.Pods[j]
			if pod.Phase == api.PodRestored || !strings.Contains(pod.Message, danger) || restoredSince(all, r, pod.Name) {
				continue
			}
			findings = append(findings, finding(Fail, r.Namespace+"/"+pod.Name, "was let start by giving up Restore %s: %s", r.Name, pod.Message).
				With("restore it again: %s; where its volume is another by now, delete the Restore %s", restoreAgain(r, pod), r.Name))
		}
	}
	return findings
}

// restoreAgain is the command that makes good what was given up.
func restoreAgain(r *api.Restore, pod *api.PodRestore) string {
	again := fmt.Sprintf("kubectl stategraft restore pod/%s -n %s", pod.Name, r.Namespace)
	if r.Status.Backup != "" && pod.Action != api.ActionUndo {
		again = fmt.Sprintf("kubectl stategraft restore --backup %s pod/%s -n %s", r.Status.Backup, pod.Name, r.Namespace)
	}
	if pod.Previous {
		again += fmt.Sprintf(", or go back to the data from before: kubectl stategraft restore undo %s pod/%s -n %s", r.Name, pod.Name, r.Namespace)
	}
	return again
}

// restoredSince tells whether a later Restore is done with the pod. Of two for one pod
// the later waits for the earlier, so that they go one after the other.
func restoredSince(all []api.Restore, given *api.Restore, pod string) bool {
	for i := range all {
		other := &all[i]
		if other.Namespace != given.Namespace || other.Name == given.Name {
			continue
		}
		at := other.Status.Pod(pod)
		if at == nil || at.Phase != api.PodRestored {
			continue
		}
		if at.Finished != nil && given.Status.Finished != nil {
			if !at.Finished.Before(given.Status.Finished) {
				return true
			}
			continue
		}
		if given.CreationTimestamp.Before(&other.CreationTimestamp) {
			return true
		}
	}
	return false
}
