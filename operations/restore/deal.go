package restore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// planAnna says which parts of a backup each node of a cluster of Anna writes again. Any
// number of nodes will do, as keys find their places by themselves.
func planAnna(f Facts, pods []*corev1.Pod) (plan []api.PodRestore, lines []string, p *Problem) {
	if len(f.Late) > 0 {
		var late []string
		for _, pod := range f.Late {
			late = append(late, pod.Name)
		}
		return nil, nil, &Problem{Reason: ReasonTopologyDiffers, Message: fmt.Sprintf("the cluster has got %s since this was accepted, and what it holds would be mixed with the backup; make another Restore", someOf(late))}
	}
	if p := onePrefix(f, pods); p != nil {
		return nil, nil, p
	}
	parts, without, p := partsOf(f)
	if p != nil {
		return nil, nil, p
	}
	if p := absentNodes(f, pods, slices.Concat(parts, without)); p != nil {
		return nil, nil, p
	}
	dealt, p := deal(f, pods, parts)
	if p != nil {
		return nil, nil, p
	}
	for _, pod := range pods {
		at := api.PodRestore{Name: pod.Name, Phase: api.PodPlanned, Action: api.ActionRestore, Node: api.NoSource}
		if names := dealt[pod.Name]; len(names) > 0 {
			at.Node = strings.Join(names, ",")
		}
		for _, name := range dealt[pod.Name] {
			member, _ := f.Backup.Member(name)
			at.BytesTotal, at.KeysTotal = at.BytesTotal+member.Bytes, at.KeysTotal+member.Keys
		}
		plan = append(plan, at)
	}
	return plan, describeAnna(f, plan, parts, without), nil
}

// onePrefix tells whether the pods, which their labels call one cluster, say otherwise.
func onePrefix(f Facts, pods []*corev1.Pod) *Problem {
	first := ""
	for _, pod := range pods {
		report, ok := f.Reports[pod.Name]
		switch {
		case !ok || report.Node == "": // it cannot tell
		case first == "":
			first = pod.Name
		case report.Prefix != f.Reports[first].Prefix:
			return &Problem{Reason: ReasonNotSupported, Message: fmt.Sprintf("pods %s and %s have the same label app.kubernetes.io/part-of, or none, and are of two clusters: their backups are below %s and below %s. Give each cluster a label of its own",
				first, pod.Name, prefixText(f.Reports[first].Prefix), prefixText(report.Prefix))}
		}
	}
	return nil
}

// partsOf are the nodes of the backup whose parts are written again, and those that it
// lacks.
func partsOf(f Facts) (parts, without []string, p *Problem) {
	b := f.Backup
	known := map[string]bool{}
	for i := range b.Members {
		known[b.Members[i].Node] = true
		if b.Members[i].Complete {
			parts = append(parts, b.Members[i].Node)
		} else {
			without = append(without, b.Members[i].Node)
		}
	}
	for _, name := range ringNodes(b) {
		if !known[name] {
			without = append(without, name)
		}
	}
	slices.SortFunc(parts, natural)
	slices.SortFunc(without, natural)
	switch {
	case len(parts) == 0:
		return nil, nil, &Problem{Reason: ReasonNothingToRestore, Message: fmt.Sprintf("backup %s has no part that is complete; name another backup", b.Name)}
	case len(without) > 0 && f.Restore.Spec.WhenNoBackup != api.NoBackupEmpty && f.Restore.Spec.Mode != api.Merge:
		return nil, nil, &Problem{Reason: ReasonNoBackupOfNode, Message: fmt.Sprintf("backup %s has no complete part of %s: their keys would be missing. Name another backup, or have the cluster restored without them by whenNoBackup: Empty", b.Name, nodesText(without))}
	}
	return parts, without, nil
}

// deal gives each part to one node, in turn, or as spec.source.nodes says.
func deal(f Facts, pods []*corev1.Pod, parts []string) (map[string][]string, *Problem) {
	dealt := map[string][]string{}
	if s := f.Restore.Spec.Source; s != nil && len(s.Nodes) > 0 {
		given := map[string]bool{}
		for _, pod := range pods {
			for _, name := range (&api.PodRestore{Node: s.Nodes[pod.Name]}).Sources() {
				if !slices.Contains(parts, name) {
					return nil, &Problem{Reason: ReasonNoBackupOfNode, Message: fmt.Sprintf("spec.source.nodes gives pod %s node %s, of which backup %s has no complete part; it has %s", pod.Name, name, f.Backup.Name, nodesText(parts))}
				}
				dealt[pod.Name], given[name] = append(dealt[pod.Name], name), true
			}
		}
		left := slices.DeleteFunc(slices.Clone(parts), func(name string) bool { return given[name] })
		if len(left) > 0 {
			return nil, &Problem{Reason: ReasonIncompleteMapping, Message: fmt.Sprintf("spec.source.nodes gives %s of the backup to no pod: their keys would be missing. Leave it out, and the parts are dealt out over the pods", nodesText(left))}
		}
		return dealt, nil
	}
	for i, name := range parts {
		pod := pods[i%len(pods)].Name
		dealt[pod] = append(dealt[pod], name)
	}
	return dealt, nil
}

// describeAnna says what a plan does and what it costs.
func describeAnna(f Facts, plan []api.PodRestore, parts, without []string) (lines []string) {
	b := f.Backup
	var keys, bytes, missing int64
	for _, name := range parts {
		member, _ := b.Member(name)
		keys, bytes = keys+member.Keys, bytes+member.Bytes
		if member.Missing != nil {
			missing += member.Missing.Count
		}
	}
	what := "are emptied and get"
	if f.Restore.Spec.Mode == api.Merge {
		what = "stay as they are, and get merged in"
	}
	lines = append(lines, fmt.Sprintf("The %s of a cluster of Anna %s backup %s, finished %s: %d keys of %s, %s",
		counted(len(plan), "pod"), what, b.Name, timeText(finishedOf(b)), keys, counted(len(parts), "node"), sizeText(bytes)))
	if !slices.ContainsFunc(parts, func(name string) bool { return hadNode(f, chosen(f), name) }) {
		lines = append(lines, "None of these nodes of the backup ("+someOf(parts)+") is one of the cluster's, by its name")
	}
	if len(f.Added) > 0 {
		lines = append(lines, "A cluster of Anna is restored as a whole: "+someOf(f.Added)+" too, though not named")
	}
	if len(without) > 0 {
		lines = append(lines, "The backup has nothing complete of "+nodesText(without)+": their keys are missing")
	}
	if missing > 0 {
		lines = append(lines, fmt.Sprintf("The backup lacks %d keys that its nodes listed", missing))
	}
	if f.Restore.Spec.Mode == api.Merge {
		return append(lines, "Values that are later than those of the backup stay, and so does what the backup does not have")
	}
	lines = append(lines, "What was written since then is lost")
	if f.Restore.Spec.KeepPrevious == api.KeepNever {
		return append(lines, "The files of the disk tier from before are not kept; the memory tier has none")
	}
	return append(lines, "The directories of the disk tier are set aside; what was in memory cannot be gone back to")
}

// finishedOf is when the last part was.
func finishedOf(b *node.Backup) (last time.Time) {
	last = b.Finished
	for i := range b.Members {
		if b.Finished.IsZero() && b.Members[i].Finished.After(last) {
			last = b.Members[i].Finished
		}
	}
	return last
}
