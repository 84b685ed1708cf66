package claims

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
// first. It keeps others for AskAgain at the most, all that do at the same time.
func (o *objects) awaited(t *turns, me claim, now time.Time) (*claim, error) {
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
		shares, err := o.shares(b, mine)
		if err != nil {
			return nil, err
		}
		if !shares {
			continue
		}
		since, known := t.awaited[b.UID]
		if !known {
			since, t.awaited[b.UID] = now, now
		}
		if now.Sub(since) < AskAgain && (first == nil || w.order(*first) < 0) {
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
func (o *objects) shares(b, mine *api.Backup) (bool, error) {
	if !settled(b) || !settled(mine) {
		return true, nil
	}
	if o.known == nil {
		all, err := o.within(b.Namespace)
		if err != nil {
			return false, err
		}
		o.known = clusters(all)
	}
	names := b.Spec.Pods.Names
	if w := b.Spec.Pods.Workload; w != nil {
		names = []string{w.Name}
	}
	for _, name := range names {
		if cluster, ok := o.known[name]; ok {
			return cluster == o.key, nil
		}
	}
	return together(b, mine), nil
}

// clusters are those of pods and of their StatefulSets, by name, as the newest Backup says
// that has them.
func clusters(all []*api.Backup) map[string]Cluster {
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
