package restore

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/workload"
)

// A cluster of Anna is restored as a whole. Its backup is a list of keys, which are
// written again once the nodes run, to whichever node the ring puts them at. That is a
// merge: a later value stays, and an element of a set that is not in the backup, too. So
// it goes back to the backup only in nodes that hold nothing, and all of them have to go
// down before the first comes up. In mode Merge none goes down, and that is wanted.

// kindOf is RestoreStatus.Kind for some pods.
func kindOf(pods []*corev1.Pod) string {
	if slices.ContainsFunc(pods, kvs.HoldsData) {
		return api.KindAnna
	}
	return ""
}

// checkPod is CheckPod, as far as the mode asks for it: one that is not made anew may have
// whatever name and template.
func (f *Facts) checkPod(pod *corev1.Pod) *Problem {
	if f.Restore.Spec.Mode != api.Merge {
		return CheckPod(pod)
	}
	if p := sidecarOf(pod); p != nil {
		return p
	}
	if !kvs.HoldsData(pod) {
		return &Problem{Reason: ReasonNotSupported, Message: fmt.Sprintf("pod %s is not of Anna, and mode %s writes the keys of a backup of Anna again; leave mode out", pod.Name, api.Merge)}
	}
	return merges(pod)
}

// merges tells why a node of Anna cannot write keys again while it runs, or is nil: the
// sidecar of an adopted one only backs up (agent/anna/serve).
func merges(pod *corev1.Pod) *Problem {
	if !adopted.Is(pod) {
		return nil
	}
	return &Problem{Reason: ReasonNotSupported, Message: fmt.Sprintf("pod %s was adopted while it ran, and its sidecar only backs up: no keys are written from there in mode %s. Leave mode out, for which it is created anew; or have the pods of the cluster created anew, one after the other, before",
		pod.Name, api.Merge)}
}

// comeAgain is the function of that name; pods that are not taken down need not.
func (f *Facts) comeAgain(pods []*corev1.Pod) *Problem {
	if f.Restore.Spec.Mode == api.Merge {
		return nil
	}
	return comeAgain(*f, pods)
}

// oneKind tells whether pods are asked for that are not restored in one way, or in one
// cluster.
func oneKind(f Facts, pods []*corev1.Pod) *Problem {
	first := slices.IndexFunc(pods, kvs.HoldsData)
	if first < 0 {
		return severalOf(f)
	}
	if p := doubtful(f, pods); p != nil {
		return p
	}
	for _, pod := range pods {
		if !kvs.Together(pods[first], pod) {
			return &Problem{Reason: ReasonNotSupported, Message: fmt.Sprintf("pods %s and %s are not of one cluster of Anna (label app.kubernetes.io/part-of), and such a cluster is restored as a whole; make a Restore for each", pods[first].Name, pod.Name)}
		}
		if set := setOf(f, pod); set != nil && f.Restore.Spec.Mode != api.Merge && f.Restore.Spec.Undo == "" && oneByOne(set) {
			return &Problem{Reason: ReasonNotSupported, Message: fmt.Sprintf("StatefulSet %s starts its pods one after the other (podManagementPolicy), each when the one before is Ready, and a restored node of Anna is Ready only when all nodes of the cluster have their keys. Make it anew with podManagementPolicy: Parallel (kubectl delete statefulset %[1]s --cascade=orphan, and apply it), or use mode %[2]s", set.Name, api.Merge)}
		}
	}
	return nil
}

// severalOf tells of a node of Cassandra that would get what only a node of Anna can:
// several parts, or none.
func severalOf(f Facts) *Problem {
	if f.Restore.Spec.Source == nil {
		return nil
	}
	for _, pod := range slices.Sorted(maps.Keys(f.Restore.Spec.Source.Nodes)) {
		if given := f.Restore.Spec.Source.Nodes[pod]; given == api.NoSource || strings.Contains(given, ",") {
			return &Problem{Reason: ReasonBadSpec, Message: fmt.Sprintf("spec.source.nodes gives pod %s %q, and a node of Cassandra takes the data of one node; name it", workload.Short(pod), workload.Short(given))}
		}
	}
	return nil
}

// doubtful tells of nodes that were not asked for, and may be of another cluster: they
// would be emptied, too.
func doubtful(f Facts, pods []*corev1.Pod) *Problem {
	var asked, added []*corev1.Pod
	for _, pod := range pods {
		if slices.Contains(f.Added, pod.Name) {
			added = append(added, pod)
		} else {
			asked = append(asked, pod)
		}
	}
	if why := kvs.Doubt(asked, added); why != "" {
		return &Problem{Reason: ReasonNotSupported, Message: why}
	}
	return nil
}

// oneByOne tells whether a StatefulSet waits with each pod for the one before.
func oneByOne(set *appsv1.StatefulSet) bool {
	from, to := ordinals(set)
	return to-from > 1 && set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
}

// widen has a Restore of some nodes of Anna be about all of their cluster, and leaves out
// those that hold nothing, where a selector takes them along. An undo is about volumes.
func (f *Facts) widen(all []*corev1.Pod) {
	if kindOf(f.Pods) != api.KindAnna || f.Restore.Spec.Undo != "" {
		return
	}
	if f.Restore.Spec.Pods.Selector != nil {
		f.Pods = slices.DeleteFunc(f.Pods, kvs.Idle)
	}
	others := kvs.Others(f.Pods, all)
	for _, pod := range others {
		if !slices.ContainsFunc(f.Kin, func(p *corev1.Pod) bool { return p.Name == pod.Name }) {
			f.Kin = append(f.Kin, pod)
		}
	}
	if accepted, _ := condition(&f.Restore.Status, api.ConditionAccepted); accepted {
		f.Late = others // it is settled
		return
	}
	for _, pod := range others {
		f.Added = append(f.Added, pod.Name)
	}
	f.Pods = append(f.Pods, others...)
	slices.SortFunc(f.Pods, func(a, b *corev1.Pod) int { return natural(a.Name, b.Name) })
}

// awaitNodes adds the pods that the StatefulSets of Anna's nodes are to have and have not:
// they would come up empty beside the others, or with what they had.
func (f *Facts) awaitNodes(all []*corev1.Pod) {
	if accepted, _ := condition(&f.Restore.Status, api.ConditionAccepted); accepted || f.Restore.Spec.Undo != "" {
		return
	}
	looked := map[string]bool{}
	for _, pod := range f.Pods {
		set := setOf(*f, pod)
		if !kvs.HoldsData(pod) || set == nil || set.DeletionTimestamp != nil || looked[set.Name] {
			continue
		}
		looked[set.Name] = true
		from, to := ordinals(set)
		for n := from; n < to; n++ {
			name := set.Name + "-" + strconv.Itoa(n)
			there := slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Name == name })
			if !there && !slices.Contains(f.Awaited, name) && !slices.Contains(f.Missing, name) {
				f.Awaited = append(f.Awaited, name)
			}
		}
	}
	slices.SortFunc(f.Awaited, natural)
}

// notReady tells which nodes cannot be merged into yet: each has to write, and be written
// to.
func notReady(f Facts) *Problem {
	var names []string
	for _, pod := range chosen(f) {
		if _, answers := f.Reports[pod.Name]; !answers && !ready(pod) || pod.DeletionTimestamp != nil {
			names = append(names, pod.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &Problem{Reason: ReasonPodGoing, Wait: true, Message: "waits for " + someOf(names) + " to be Ready: the keys are written to all nodes of the cluster"}
}

// memoryFirst has nodes of the disk tier of Anna wait until one of the memory tier runs:
// Anna's processes end where they know of disk nodes only.
func (c *course) memoryFirst(back []string) []string {
	if c.status.Kind != api.KindAnna {
		return back
	}
	absent := false
	memory := map[string]bool{}
	for _, name := range c.status.Pending {
		pod, s := c.w.pods[name], c.seen[name]
		if pod == nil || s.sight == replaced || s.sight == leaving {
			absent = true // it may be of the memory tier
			continue
		}
		if memory[name] = kvs.Role(pod) == workload.RoleMemory; memory[name] && s.sight == restored && isUpNow(pod) {
			return back
		}
	}
	first := slices.DeleteFunc(slices.Clone(back), func(name string) bool { return !memory[name] })
	if len(first) == 0 && !absent && !slices.ContainsFunc(slices.Collect(maps.Values(memory)), func(is bool) bool { return is }) {
		return back // there is no memory tier
	}
	return first
}

// isUpNow tells whether the pod's database does.
func isUpNow(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return !workload.Own(s.Name) && s.State.Running != nil })
}
