package annotated

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/operations/rpo"
	wl "github.com/stategraft/stategraft/workload"
)

// workload is an object that makes pods, or a pod that nobody makes.
type workload struct {
	owner rpo.Owner
	kind  wl.Kind
	pods  []*corev1.Pod // injected, the oldest first
}

// stores tells whether there is something to back up in the pods: of Anna not all hold
// keys.
func (w workload) stores() bool {
	return w.kind == wl.KindCassandra || w.kind == wl.KindAnna && !slices.ContainsFunc(w.pods, kvs.Idle)
}

// cluster are the workloads whose pods are backed up together, by name.
type cluster []workload

// workloadsOf sorts injected pods by what makes them. Pods that have ended are nobody's.
func workloadsOf(pods []corev1.Pod) (all []workload) {
	at := map[rpo.Owner]int{}
	for i := range pods {
		pod := &pods[i]
		kind, injected := pod.Labels[api.LabelInjected]
		if !injected || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		owner := rpo.OwnerOf(pod)
		n, ok := at[owner]
		if !ok {
			n = len(all)
			at[owner], all = n, append(all, workload{owner: owner, kind: wl.Kind(kind)})
		}
		all[n].pods = append(all[n].pods, pod)
	}
	for _, w := range all {
		slices.SortFunc(w.pods, older)
	}
	slices.SortFunc(all, func(a, b workload) int { return compareOwners(a.owner, b.owner) })
	return all
}

func older(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

func compareOwners(a, b rpo.Owner) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.UID, b.UID))
}

// clustersOf puts workloads together that store below the same prefix. One whose prefix is
// not known, or is none, is a cluster of its own.
func clustersOf(all []workload, prefixes map[rpo.Owner]string) (clusters []cluster) {
	at := map[string]int{}
	for _, w := range all {
		prefix := prefixes[w.owner]
		if n, ok := at[prefix]; ok && prefix != "" {
			clusters[n] = append(clusters[n], w)
			continue
		}
		at[prefix] = len(clusters)
		clusters = append(clusters, cluster{w})
	}
	return clusters
}

// pods are those of all workloads, the oldest first.
func (c cluster) pods() (all []*corev1.Pod) {
	for _, w := range c {
		all = append(all, w.pods...)
	}
	slices.SortStableFunc(all, older)
	return all
}

// has tells whether an owner is one of the workloads.
func (c cluster) has(owner rpo.Owner) bool {
	return slices.ContainsFunc(c, func(w workload) bool { return w.owner == owner })
}

// name is what the cluster is called: as its workload, or as what the names of its
// workloads have in common.
func (c cluster) name() string {
	name := c[0].owner.Name
	if len(c) == 1 {
		return name
	}
	for _, w := range c[1:] {
		name = common(name, w.owner.Name)
	}
	if cut := strings.LastIndexAny(name, "-."); cut > 0 {
		name = name[:cut]
	}
	if name = strings.Trim(name, "-."); name == "" {
		return c[0].owner.Name
	}
	return name
}

func common(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// fleeting tells whether the pods of an owner are never the same twice, so that their
// backups are of nodes that do not come back.
func fleeting(owner rpo.Owner) bool {
	return owner.Kind == "ReplicaSet" || owner.Kind == "Job" || owner.Kind == "DaemonSet"
}
