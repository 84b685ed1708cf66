package claims

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// ReasonBusy is the reason of the condition Accepted of a Backup that waits for its turn.
const ReasonBusy = "Busy"

// coming tells whether a Backup has not begun, and nothing is known that keeps it from it
// but whose turn it is: nobody has looked at it, or it waits in a line that a process
// before this one kept.
func coming(b *api.Backup) bool {
	switch {
	case b.Found(), b.Spec.DryRun, b.Spec.Suspend, b.Spec.Cancel, b.DeletionTimestamp != nil, b.Status.Name != "", b.Status.Phase.Final():
		return false
	}
	accepted := meta.FindStatusCondition(b.Status.Conditions, api.ConditionAccepted)
	return accepted == nil || accepted.Status == metav1.ConditionFalse && accepted.Reason == ReasonBusy
}

// awaited is the oldest Backup that comes before me and has not asked yet, as when both
// were made at once, or the controller has just begun: whose pods answer sooner would be
// first. It keeps others for AskAgain at the most, all that do at the same time. One that
// has asked at another cluster keeps nobody at this one.
func (c *Claims) awaited(o *objects, t *turns, me claim, now time.Time) (*claim, error) {
	mine := o.byUID[me.uid]
	if me.kind != Backup || mine == nil {
		return nil, nil
	}
	all, err := o.coming(me.who.Namespace)
	if err != nil {
		return nil, err
	}
	var first *waiter
	self := waiter{claim: me, asked: o.asked(me, now)}
	for _, b := range all {
		w := waiter{claim: claim{Backup, of(b), b.UID}, asked: b.CreationTimestamp.Time}
		if _, asks := t.waiting[b.UID]; asks || w.order(self) >= 0 {
			continue
		}
		since, known := t.awaited[b.UID]
		if known && now.Sub(since) >= AskAgain {
			continue
		}
		shares, err := c.shares(o, b, mine, now)
		if err != nil {
			return nil, err
		}
		if !shares || c.elsewhere(t, b.UID) {
			continue
		}
		if !known {
			t.awaited[b.UID] = now
		}
		if first == nil || w.order(*first) < 0 {
			first = &w
		}
	}
	if first == nil {
		return nil, nil
	}
	return &first.claim, nil
}

// shares tells whether a Backup that has not begun may be of this cluster: as the newest
// of its pods was, and where there is none, if it may have a pod of mine.
func (c *Claims) shares(o *objects, b, mine *api.Backup, now time.Time) (bool, error) {
	if !settled(b) || !settled(mine) {
		return true, nil
	}
	of, err := c.clusters(o, b.Namespace, now)
	if err != nil {
		return false, err
	}
	names := b.Spec.Pods.Names
	if w := b.Spec.Pods.Workload; w != nil {
		names = []string{w.Name}
	}
	for _, name := range names {
		if cluster, ok := of[name]; ok {
			return cluster == o.key, nil
		}
	}
	return together(b, mine), nil
}

// elsewhere tells whether a Backup waits for its turn at another cluster, or has it.
func (c *Claims) elsewhere(here *turns, uid types.UID) bool {
	for _, t := range c.turns {
		if _, waits := t.waiting[uid]; t != here && (waits || t.held != nil && t.held.uid == uid) {
			return true
		}
	}
	return false
}

// knownFor is how long it is taken for true which pods are of which cluster: there may be
// ten thousand Backups to look through, and a hundred that a schedule makes at once.
const knownFor = 10 * time.Second

// known are the clusters of a namespace's pods, as they were at a time.
type known struct {
	at time.Time
	of map[string]Cluster
}

// clusters are those of a namespace's pods, as clustersOf says.
func (c *Claims) clusters(o *objects, namespace string, now time.Time) (map[string]Cluster, error) {
	maps.DeleteFunc(c.known, func(_ string, k known) bool { return now.Sub(k.at) >= knownFor })
	if k, ok := c.known[namespace]; ok {
		return k.of, nil
	}
	all, err := o.within(namespace)
	if err != nil {
		return nil, err
	}
	of := clustersOf(all)
	c.known[namespace] = known{now, of}
	return of, nil
}

// clustersOf are those of pods and of their StatefulSets, by name, as the newest Backup says
// that has them.
func clustersOf(all []*api.Backup) map[string]Cluster {
	known := map[string]Cluster{}
	for _, b := range slices.SortedFunc(slices.Values(all), func(a, b *api.Backup) int { return a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time) }) {
		cluster, ok := Of(b)
		if !ok {
			continue
		}
		for i := range b.Status.Pods {
			name := b.Status.Pods[i].Name
			known[name] = cluster.key()
			if end := strings.LastIndexByte(name, '-'); end > 0 {
				known[name[:end]] = cluster.key()
			}
		}
	}
	return known
}

// together tells whether two Backups may have a pod in common, by what they ask for.
func together(a, b *api.Backup) bool {
	x, y := a.Spec.Pods, b.Spec.Pods
	switch {
	case x == nil || y == nil:
		return true
	case x.Workload != nil && y.Workload != nil:
		return x.Workload.Name == y.Workload.Name
	case x.Workload != nil:
		return slices.ContainsFunc(y.Names, func(name string) bool { return strings.HasPrefix(name, x.Workload.Name+"-") })
	case y.Workload != nil:
		return together(b, a)
	}
	return slices.ContainsFunc(x.Names, func(name string) bool { return slices.Contains(y.Names, name) })
}
