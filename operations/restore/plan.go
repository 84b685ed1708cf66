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

// Reasons of what speaks against a plan.
const (
	ReasonNoBackupOfNode    = "NoBackupOfNode"
	ReasonNotInRing         = "NotInRing"
	ReasonNothingToRestore  = "NothingToRestore"
	ReasonTooLittleRoom     = "TooLittleRoom"
	ReasonNoPrevious        = "NoPrevious"
	ReasonDuplicateSource   = "DuplicateSource"
	ReasonIncompleteMapping = "IncompleteMapping"
	ReasonTopologyDiffers   = "TopologyDiffers"
	ReasonDisruptionBudget  = "DisruptionBudget"
)

// reserve is the part of the backup's size, in percent, that has to stay free on a
// volume, as the restore container asks for it too (agent/restore/judge.go): one
// that is filled to the last block keeps the database from starting.
const reserve = 2

// Plan says for each pod what is done to it, and in a message how much that is and
// what would be lost; or why it cannot be done. What may pass by itself is told
// last. A dry run is not held up by that: its message says so.
func Plan(f Facts) (pods []api.PodRestore, message string, p *Problem) {
	var lines []string
	if f.Restore.Spec.Undo != "" {
		pods, lines, p = planUndo(f)
	} else {
		pods, lines, p = planRestore(f)
	}
	if p != nil {
		return nil, "", p
	}
	p = waits(f)
	if large := tooLarge(pods); large != nil {
		return nil, "", large
	}
	override, held := "", (*Problem)(nil)
	if f.Restore.Spec.Mode != api.Merge { // which takes no pod down
		override, held = Budget(f)
	}
	if p == nil {
		p = held
	}
	if override != "" {
		lines = append(lines, override)
	}
	switch {
	case p != nil && !f.Restore.Spec.DryRun:
		return nil, "", p
	case p != nil:
		lines = append(lines, "For now it would wait: "+p.Message)
	}
	return pods, strings.Join(lines, ". ") + ".", nil
}

func planRestore(f Facts) (plan []api.PodRestore, lines []string, p *Problem) {
	b := f.Backup
	if b == nil {
		return nil, nil, &Problem{Reason: ReasonLookingUp, Wait: true, Message: "the backup has not been looked up yet"}
	}
	pods := chosen(f)
	if kindOf(pods) == api.KindAnna {
		return planAnna(f, pods)
	}
	nodes, p := sources(f, pods)
	if p != nil {
		return nil, nil, p
	}
	for _, pod := range pods {
		at, p := planPod(f, pod, nodes[pod.Name])
		if p != nil {
			return nil, nil, p
		}
		plan = append(plan, at)
	}
	if !slices.ContainsFunc(plan, func(at api.PodRestore) bool { return at.Action == api.ActionRestore }) {
		return nil, nil, &Problem{Reason: ReasonNothingToRestore, Message: fmt.Sprintf("backup %s has nothing of any of these pods, only of %s: all of them would lose their data for nothing. Say in spec.source.nodes which pod gets which node",
			b.Name, nodesText(b.Nodes))}
	}
	if p := scaledDown(f, pods, plan); p != nil {
		return nil, nil, p
	}
	if p := room(f, plan); p != nil {
		return nil, nil, p
	}
	return plan, describe(f, pods, plan), nil
}

// sources tells which node of the backup each pod gets.
func sources(f Facts, pods []*corev1.Pod) (map[string]string, *Problem) {
	nodes, without := map[string]string{}, []string(nil)
	for _, pod := range pods {
		if n := sourceOf(f, pod); n != "" {
			nodes[pod.Name] = n
		} else {
			without = append(without, pod.Name)
		}
	}
	switch {
	case len(without) == 0:
	case len(nodes) > 0:
		return nil, &Problem{Reason: ReasonIncompleteMapping, Message: fmt.Sprintf("spec.source.nodes says nothing of %s; in mode %s it names a node for every pod, or for none", someOf(without), api.Remote)}
	default:
		return paired(pods, f.Backup.Ring)
	}
	taken := map[string]string{}
	for _, pod := range pods {
		n := nodes[pod.Name]
		if other, ok := taken[n]; ok {
			return nil, &Problem{Reason: ReasonDuplicateSource, Message: fmt.Sprintf("pods %s and %s would both get node %s of the backup; two nodes with the same tokens and data cannot be in one ring. spec.source.nodes says which pod gets which node", other, pod.Name, n)}
		}
		taken[n] = pod.Name
	}
	return nodes, nil
}

// planPod says what is done to a pod that gets a node of the backup.
func planPod(f Facts, pod *corev1.Pod, from string) (api.PodRestore, *Problem) {
	b := f.Backup
	at := api.PodRestore{Name: pod.Name, Phase: api.PodPlanned, Action: api.ActionRestore, Node: from}
	member, ok := b.Member(from)
	var why string
	switch {
	case !ok:
		why = "has nothing of it"
	case !member.Complete:
		why = "of it was never finished"
	case member.Objects == 0:
		why = "of it is empty: it holds no file of any table"
	}
	if why != "" {
		if f.Restore.Spec.WhenNoBackup == api.NoBackupEmpty {
			at.Action, at.Node, at.Message = api.ActionEmpty, "", fmt.Sprintf("starts without data: backup %s %s", b.Name, why)
			return at, nil
		}
		return at, &Problem{Reason: ReasonNoBackupOfNode, Message: fmt.Sprintf("pod %s is to get node %s, and backup %s %s%s; it is finished for %s. Name another backup, or another node in spec.source.nodes, or let such pods start without data by whenNoBackup: Empty",
			pod.Name, from, b.Name, why, scaledUp(f, pod, from), nodesText(finishedNodes(b)))}
	}
	ring, ok := b.Ring[from]
	if !ok {
		return at, &Problem{Reason: ReasonNotInRing, Message: fmt.Sprintf("backup %s does not know node %s by this name in its token map, only %s: the cluster's names did not resolve when it was made. Take another backup", b.Name, from, nodesText(ringNodes(b)))}
	}
	at.BytesTotal = member.Bytes
	if mode(f.Restore) == api.Remote {
		if len(ring.Tokens) == 0 {
			return at, &Problem{Reason: ReasonNotInRing, Message: fmt.Sprintf("backup %s has no tokens of node %s, and a node cannot join in mode %s without those of its data. Take another backup", b.Name, from, api.Remote)}
		}
		if p := fit(pod, from, ring.Tokens); p != nil {
			return at, p
		}
		if p := elsewhere(pod, from, ring.Datacenter); p != nil {
			return at, p
		}
		at.Tokens = slices.Clone(ring.Tokens)
	}
	return at, nil
}

// finishedNodes are those whose part is complete.
func finishedNodes(b *node.Backup) (nodes []string) {
	for _, m := range b.Members {
		if m.Complete {
			nodes = append(nodes, m.Node)
		}
	}
	return nodes
}

// room tells which volumes have too little of it: Medusa downloads all before the
// data are replaced, so that old and new are there together, kept or not.
func room(f Facts, plan []api.PodRestore) *Problem {
	var short []string
	for i := range plan {
		at := &plan[i]
		report, ok := f.Reports[at.Name]
		done := slices.ContainsFunc(report.Done, func(d node.Done) bool { return d.ID == f.Restore.Status.ID })
		if at.Action != api.ActionRestore || done {
			continue
		}
		if !ok || report.Size == 0 {
			at.Message = "the room on its volume is not known; the restore container looks before it touches anything"
			continue
		}
		if needs := at.BytesTotal + at.BytesTotal*reserve/100; report.Free < needs {
			short = append(short, fmt.Sprintf("%s needs %s and has %s", at.Name, sizeText(needs), sizeText(report.Free)))
		}
	}
	if len(short) == 0 {
		return nil
	}
	return &Problem{Reason: ReasonTooLittleRoom, Message: "too little room on the data volumes besides what is there: " + someOf(short) + ". Enlarge the volumes, or remove snapshots (nodetool clearsnapshot)"}
}

// planUndo goes back to what an earlier Restore has set aside.
func planUndo(f Facts) (plan []api.PodRestore, lines []string, p *Problem) {
	undo := f.Restore.Spec.Undo
	if f.Earlier == nil {
		return nil, nil, &Problem{Reason: ReasonNoSuchRestore, Message: fmt.Sprintf("there is no restore %s any more", undo)}
	}
	var gone []string
	var bytes int64
	var since time.Time
	for _, pod := range chosen(f) {
		at := api.PodRestore{Name: pod.Name, Phase: api.PodPlanned, Action: api.ActionUndo}
		if report, ok := f.Reports[pod.Name]; ok {
			i := slices.IndexFunc(report.Previous, func(p node.Previous) bool { return p.ID == f.Earlier.Status.ID })
			if i < 0 {
				gone = append(gone, pod.Name)
				continue
			}
			at.BytesTotal = report.Previous[i].Bytes
			bytes += at.BytesTotal
			if since.IsZero() || report.Previous[i].Since.Before(since) {
				since = report.Previous[i].Since
			}
		} else {
			at.Message = "whether its data from before are still there is not known; the restore container looks before it touches anything"
		}
		plan = append(plan, at)
	}
	if len(gone) > 0 {
		return nil, nil, &Problem{Reason: ReasonNoPrevious, Message: fmt.Sprintf("the data from before restore %s are not kept any more on %s: they are removed once the database has been ready for long enough, or were gone back to already. Restore a backup instead", undo, someOf(gone))}
	}
	if since.IsZero() && f.Earlier.Status.Started != nil {
		since = f.Earlier.Status.Started.Time
	}
	line := fmt.Sprintf("%s %s to the data from before restore %s", counted(len(plan), "pod"), verb(len(plan), "goes back", "go back"), undo)
	if bytes > 0 {
		line += ", " + sizeText(bytes)
	}
	if kindOf(chosen(f)) == api.KindAnna {
		return plan, []string{line, "Only the directories of the disk tier are put back: keys in memory stay as they are, and Anna reads a file of the disk tier only when its key is written again. To go back to an earlier state restore an earlier backup"}, nil
	}
	return plan, []string{line, "What was written since " + timeText(since) + " is lost"}, nil
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
