package restore

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Any nodes of Anna could be given any backup of Anna, as keys find their places by
// themselves. So nothing but names tells whose backup one is, and that is asked here where
// nobody has said which backup is meant, or where nodes of one are about to be left out.

// resolve finds the backup that is asked for.
func resolve(f Facts) (string, *Problem) {
	list, p := ownBackups(f)
	if p != nil {
		return "", p
	}
	return Resolve(f.Restore.Spec.Backup, list, SourceNodes(f), f.Now)
}

// ownBackups are those that may be found for latest or for a time: of Anna those that have
// a part of one of the nodes, or of one that their StatefulSets had. Another cluster may
// make its backups below the same prefix.
func ownBackups(f Facts) (node.Backups, *Problem) {
	list, pods := *f.Backups, chosen(f)
	asked := f.Restore.Spec.Backup
	named := asked != api.BackupLatest && slices.ContainsFunc(list.Backups, func(s node.Summary) bool { return s.Name == asked })
	if named || kindOf(pods) != api.KindAnna || f.Restore.Spec.Source != nil || len(list.Backups) == 0 {
		return list, nil
	}
	own := list
	own.Backups = slices.DeleteFunc(slices.Clone(list.Backups), func(s node.Summary) bool {
		return !slices.ContainsFunc(s.Nodes, func(name string) bool { return hadNode(f, pods, name) })
	})
	if _, timed := pointInTime(asked); len(own.Backups) == 0 && (timed || asked == api.BackupLatest) {
		newest := list.Backups[len(list.Backups)-1]
		return own, &Problem{Reason: ReasonNodesMissing, Message: fmt.Sprintf("no backup below %s is of a node of this cluster, or of one that its StatefulSets had; backup %s is of %s. If that is the one, name it in spec.backup, or say whose it is in spec.source",
			prefixText(list.Prefix), newest.Name, nodesText(newest.Nodes))}
	}
	return own, nil
}

// hadNode tells whether a node of a backup is one of these pods, or one that a StatefulSet
// of theirs makes or has made.
func hadNode(f Facts, pods []*corev1.Pod, name string) bool {
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		if pod.Name == name || f.Reports[pod.Name].Node == name {
			return true
		}
		owner := metav1.GetControllerOf(pod)
		if owner == nil {
			return false
		}
		_, is := ordinal(name, owner.Name)
		return is
	})
}

// absentNodes tells of nodes of the backup that are to be there, by a StatefulSet, and are
// not among the pods: none of that StatefulSet's was there when the pods were settled. They
// would come up beside the restored ones with what they had.
func absentNodes(f Facts, pods []*corev1.Pod, parts []string) *Problem {
	if f.Restore.Spec.Mode == api.Merge || f.Restore.Spec.Source != nil { // whose nodes may have any names
		return nil
	}
	var absent []string
	for _, name := range parts {
		if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Name == name }) {
			continue
		}
		for _, set := range f.Sets {
			if set == nil || set.DeletionTimestamp != nil {
				continue
			}
			from, to := ordinals(set)
			if n, is := ordinal(name, set.Name); is && from <= n && n < to {
				absent = append(absent, name)
				break
			}
		}
	}
	if len(absent) == 0 {
		return nil
	}
	return &Problem{Reason: ReasonPodNotFound, Message: fmt.Sprintf("%s %s of the cluster in the backup, a StatefulSet is to have %s, and %s not restored with the others: with what %s before, %s would come up beside them. Make another Restore when all pods are there, or after the StatefulSet was scaled down",
		someOf(absent), verb(len(absent), "was", "were"), verb(len(absent), "it", "them"), verb(len(absent), "it is", "they are"), verb(len(absent), "it had", "they had"), verb(len(absent), "it", "they"))}
}
