package backup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

// takenUp is when a controller must have seen a Backup.
const takenUp = 10 * time.Second

// Next says what the person who looks at a Backup can do now, a line each.
func Next(b *api.Backup, now time.Time) []string {
	at := func(command string) string { return "kubectl stategraft backup " + command + " " + path(b) }
	cancel := at("cancel") + "   # begins no further pod, and is not complete then unless all pods complete even so"
	anew := "settle what the message names, then back up anew under another name"
	drop := at("delete") + deletes(b)
	switch phase := b.Status.Phase; {
	case !b.DeletionTimestamp.IsZero() || phase == api.BackupDeleting:
		return deleting(b)
	case b.Spec.DryRun && phase.Final():
		return []string{fmt.Sprintf("kubectl delete %s %s   # a dry run, which nobody needs any more", ask.Backups, path(b))}
	case phase == api.BackupComplete:
		return slices.Concat(doubted(b), restores(b), pinning(b, at))
	case phase == api.BackupPartial:
		return []string{
			fmt.Sprintf("not complete: the storage has nothing whole of %s. Settle what its message names and back up anew; what is complete can be restored pod by pod:", shortened(incomplete(b))),
			restore(b, completePods(b)), drop}
	case phase == api.BackupMissing:
		return []string{"kubectl stategraft sync -n " + b.Namespace + "   # looks into the storage once more",
			"find out who deleted the data (a lifecycle rule of the bucket, a purge by hand); they cannot be restored", drop}
	case phase.Final():
		return []string{anew, drop}
	case b.Spec.Cancel && !b.Found(): // nothing is left to ask for
		return []string{at("wait") + "   # it is being cancelled: pods that upload finish first; complete only if all do even so"}
	case phase == "" && now.Sub(b.CreationTimestamp.Time) > takenUp:
		return []string{"kubectl stategraft check   # nobody has taken it up yet: does the controller run?", cancel}
	case b.Spec.Suspend:
		return []string{at("resume"), cancel}
	case b.Found():
		return []string{"kubectl stategraft sync -n " + b.Namespace + "   # looks into the storage again"}
	}
	return []string{at("wait"), cancel}
}

// deleting is about one that is on its way out.
func deleting(b *api.Backup) []string {
	if b.Keeps() {
		return []string{"nothing: the object goes, and the data stay"}
	}
	next := []string{"kubectl stategraft backup delete " + path(b) + " --keep-data   # lets the object go, and keeps what is left of the data"}
	if c := meta.FindStatusCondition(b.Status.Conditions, api.ConditionDeleted); c != nil && c.Status == metav1.ConditionFalse {
		return append([]string{"the data cannot be deleted yet: the condition Deleted says why"}, next...)
	}
	return next
}

func deletes(b *api.Backup) string {
	if b.Keeps() {
		return "   # the object; the data stay, unless --data is given"
	}
	return "   # and its data"
}

func pinning(b *api.Backup, at func(string) string) []string {
	if b.Spec.Pinned {
		return []string{at("unpin") + "   # retention may delete it then"}
	}
	return []string{at("pin") + "   # keep it for good, whatever retention says"}
}

// doubted warns of one that did not hold on trial what it should.
func doubted(b *api.Backup) []string {
	if v := b.Status.Verified; v == nil || v.Result != api.VerificationFailed {
		return nil
	}
	return []string{"it failed its restore on trial, as said above: make another (kubectl stategraft backup), and restore from this one only where there is none better"}
}

// restores are the commands by which it is restored; the plan first.
func restores(b *api.Backup) []string {
	line := restore(b, nil)
	return []string{line + " --dry-run   # the plan", line}
}

// restore is the command that restores pods of it: those that are named, or else what
// it was made of.
func restore(b *api.Backup, pods []string) string {
	return fmt.Sprintf("kubectl stategraft restore --backup %s %s -n %s", b.Name, target(b, pods), b.Namespace)
}

// target is what to restore, as the command line takes it. For a backup that was found
// it is told from the names of its nodes, which are those of its pods.
func target(b *api.Backup, pods []string) string {
	if len(pods) == 0 {
		switch p := b.Spec.Pods; {
		case p != nil && p.Workload != nil && (p.Workload.Kind == "" || p.Workload.Kind == "StatefulSet"):
			return "statefulset/" + p.Workload.Name
		case p != nil && p.Selector != nil:
			return "-l '" + ask.Clean(metav1.FormatLabelSelector(p.Selector)) + "'"
		}
		for _, pod := range sorted(b.Status.Pods) {
			pods = append(pods, pod.Name)
		}
		if owner := ownerOf(pods); b.Found() && owner != "" {
			return "statefulset/" + owner
		}
	}
	const most = 5
	if len(pods) == 0 || len(pods) > most {
		return "-l LABELS-OF-THE-PODS"
	}
	return ask.Clean("pod/" + strings.Join(pods, " pod/"))
}

// ownerOf is what the names have in common before their ordinals, where these begin at
// 0 and leave none out.
func ownerOf(pods []string) string {
	owner := ""
	for i, pod := range pods {
		name, ok := strings.CutSuffix(pod, fmt.Sprintf("-%d", i))
		if !ok || name == "" || i > 0 && name != owner {
			return ""
		}
		owner = name
	}
	return owner
}

// incomplete are the pods of which there is nothing whole.
func incomplete(b *api.Backup) []string {
	var names []string
	for _, pod := range sorted(b.Status.Pods) {
		if pod.Phase != api.PodBackupComplete {
			names = append(names, pod.Name)
		}
	}
	return names
}

func completePods(b *api.Backup) []string {
	all := incomplete(b)
	var names []string
	for _, pod := range sorted(b.Status.Pods) {
		if !slices.Contains(all, pod.Name) {
			names = append(names, pod.Name)
		}
	}
	return names
}

// Stands is the last that is known of a Backup, in a line.
func Stands(b *api.Backup) string {
	if b == nil || b.Status.Phase == "" {
		return "nobody has taken it up"
	}
	text := string(b.Status.Phase)
	if b.Status.Progress.Pods != "" && !b.Status.Phase.Final() {
		text += ", pods " + b.Status.Progress.Pods
	}
	if b.Status.Message != "" {
		text += ": " + ask.Clean(b.Status.Message)
	}
	return text
}
