package restore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// covers tells whether the Restore is about all pods of each workload that it
// touches.
func covers(f Facts) bool {
	about := map[string]bool{}
	for _, pod := range f.Pods {
		about[pod.Name] = true
	}
	return !slices.ContainsFunc(f.Kin, func(pod *corev1.Pod) bool { return !about[pod.Name] })
}

func ringNodes(b *node.Backup) []string {
	return slices.SortedFunc(maps.Keys(b.Ring), natural)
}

// unused are the nodes of the backup's ring that no pod gets.
func unused(b *node.Backup, plan []api.PodRestore) (nodes []string) {
	for _, name := range ringNodes(b) {
		if !slices.ContainsFunc(plan, func(at api.PodRestore) bool { return at.Node == name }) {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// scaledDown tells of nodes of the backup whose pods are there no more. A whole
// workload that goes back to it would lose their share of the data, and its ring
// would wait for nodes that never come. Nodes of other workloads, such as another
// rack's, are recognised by their names: they are none of these pods' business. Pods
// that are only not there for now are waited for, unless the others were named.
func scaledDown(f Facts, pods []*corev1.Pod, plan []api.PodRestore) *Problem {
	if mode(f.Restore) != api.InPlace || !covers(f) {
		return nil
	}
	there, looked := map[string]bool{}, map[string]bool{}
	for _, pod := range f.Kin {
		there[pod.Name] = true
	}
	var gone, absent, remedies []string
	for _, pod := range pods {
		owner := metav1.GetControllerOf(pod)
		if owner == nil || looked[owner.Name] {
			continue
		}
		looked[owner.Name] = true
		set := setOf(f, pod)
		missing, highest := notThere(f, set, unused(f.Backup, plan)), -1
		absent = append(absent, missing...)
		for _, name := range unused(f.Backup, plan) {
			if n, ok := ordinal(name, owner.Name); ok && !there[name] && !slices.Contains(missing, name) {
				gone, highest = append(gone, name), max(highest, n)
			}
		}
		if highest >= 0 {
			first := 0
			if set != nil {
				first, _ = ordinals(set)
			}
			remedies = append(remedies, fmt.Sprintf("scale %s %s to %d first", owner.Kind, owner.Name, highest+1-first))
		}
	}
	slices.SortFunc(gone, natural)
	switch {
	case len(gone) > 0:
		return &Problem{Reason: ReasonTopologyDiffers, Message: fmt.Sprintf("backup %s has %s, which no pod stands for: the workload was scaled down since, and their share of the data would be missing; %s",
			f.Backup.Name, nodesText(gone), strings.Join(remedies, ", "))}
	case len(absent) > 0 && f.Restore.Spec.Pods.Selector != nil && !f.Restore.Spec.DryRun:
		return &Problem{Reason: ReasonPodNotFound, Wait: true, Message: absentText(absent)}
	}
	return nil
}

// scaledUp explains a pod of which the backup has nothing, where the pods around it
// tell why.
func scaledUp(f Facts, pod *corev1.Pod, from string) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || from != pod.Name || !covers(f) {
		return ""
	}
	own, ok := ordinal(pod.Name, owner.Name)
	highest := -1
	for _, name := range f.Backup.Nodes {
		if n, ok := ordinal(name, owner.Name); ok {
			highest = max(highest, n)
		}
	}
	if !ok || highest < 0 || own <= highest {
		return ""
	}
	return fmt.Sprintf(" (%s %s was scaled up since: it had %s)", owner.Kind, owner.Name, counted(highest+1, "pod"))
}

// leftOut mentions what stays out of a Restore that is not of the whole ring.
func leftOut(f Facts, plan []api.PodRestore) (lines []string) {
	rest := unused(f.Backup, plan)
	if mode(f.Restore) == api.Remote {
		if len(rest) > 0 {
			lines = append(lines, "No pod gets "+nodesText(rest)+" of the backup: what only they hold is missing afterwards")
		}
		if !covers(f) {
			lines = append(lines, "Other pods of the same workload are left as they are: a ring of restored and other nodes has not all data where it looks for them")
		}
		return lines
	}
	if len(rest) > 0 && covers(f) {
		lines = append(lines, "The backup has "+nodesText(rest)+" besides, of which this restore is not")
	}
	return lines
}

func someOfTexts(texts []string) string {
	const most = 3
	if len(texts) > most {
		return strings.Join(texts[:most], ", ") + fmt.Sprintf(" and %d more", len(texts)-most)
	}
	return strings.Join(texts, ", ")
}
