package catalogue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/workload"
)

// Listing is what the storage was seen to hold below a prefix.
type Listing struct {
	Namespace, Prefix string
	// Backups are all, the oldest first. They are shared and not to be changed.
	Backups []node.Summary
	// Listed is when the listing began: what was done since, it may not show.
	Listed time.Time
	// Failed says why the storage could not be listed; then there are no Backups.
	Failed string
}

// listings are those of a namespace and prefix: made one at a time.
type listings struct {
	turn chan struct{}
	last Listing
	pod  string // that was asked
}

// Listing is what the storage holds below a prefix, as a pod of the namespace sees it.
// One that is older than maxAge is made anew, which may take minutes; with 0 it is
// never older than the call. One that failed is always made anew.
func (c *Catalogue) Listing(ctx context.Context, namespace, prefix string, maxAge time.Duration) Listing {
	if c.world.Load() == nil {
		return Listing{Namespace: namespace, Prefix: prefix, Failed: "the catalogue does not run yet"}
	}
	l, _ := c.listed(ctx, namespace, prefix, c.now().Add(-maxAge), func() ([]*corev1.Pod, string) {
		found, troubles, err := c.find(ctx, namespace)
		if err != nil {
			return nil, err.Error()
		}
		for _, cluster := range found {
			if cluster.prefix == prefix {
				return cluster.pods, ""
			}
		}
		for _, trouble := range troubles {
			return nil, trouble.Failed
		}
		return nil, fmt.Sprintf("the storage is listed through a sidecar, and no running pod of namespace %s looks below prefix %q: start one", namespace, workload.Short(prefix))
	})
	return l
}

// listed is a listing that began at a time or later, and the pod that made it. Whom to
// ask is found only if there is none.
func (c *Catalogue) listed(ctx context.Context, namespace, prefix string, since time.Time, pods func() ([]*corev1.Pod, string)) (Listing, string) {
	at := c.listingsOf(namespace, prefix)
	select {
	case at.turn <- struct{}{}:
	case <-ctx.Done():
		return Listing{Namespace: namespace, Prefix: prefix, Failed: "another listing takes long"}, ""
	}
	defer func() { <-at.turn }()
	if at.last.Failed == "" && !at.last.Listed.IsZero() && !at.last.Listed.Before(since) {
		return at.last, at.pod
	}
	l := Listing{Namespace: namespace, Prefix: prefix, Listed: c.now()}
	whom, failed := pods()
	at.pod, l.Failed = "", failed
	seen := map[bool]bool{} // of Anna's backups, and of Cassandra's: neither sees the other's below a prefix
	for _, pod := range whom {
		if seen[kvs.Of(pod)] {
			continue
		}
		if at.pod = pod.Name; len(seen) == 0 {
			l.Listed = c.now()
		}
		list, err := c.nodes.Backups(ctx, pod, parameter(prefix))
		if err == nil {
			seen[kvs.Of(pod)] = true
			l.Backups = append(l.Backups, list.Backups...)
			continue
		}
		l.Failed = fmt.Sprintf("the storage cannot be listed: %v", err)
		if !errors.Is(err, sidecar.ErrUnreachable) && !errors.Is(err, sidecar.ErrNoService) {
			break // another would be told the same
		}
		c.forget(pod.UID)
	}
	if seenAll(whom, seen) {
		l.Failed = ""
	} else {
		l.Backups = nil
	}
	if len(seen) > 1 {
		slices.SortStableFunc(l.Backups, func(a, b node.Summary) int { return a.Started.Compare(b.Started) })
	}
	at.last = l
	return l, at.pod
}

// seenAll tells whether the backups of each kind of pods have been seen.
func seenAll(pods []*corev1.Pod, seen map[bool]bool) bool {
	return len(pods) > 0 && !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !seen[kvs.Of(pod)] })
}

func (c *Catalogue) listingsOf(namespace, prefix string) *listings {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: prefix}
	if c.listings[key] == nil {
		c.listings[key] = &listings{turn: make(chan struct{}, 1)}
	}
	return c.listings[key]
}

// parameter is a prefix as a pod is asked for it: an empty one would be its own.
func parameter(prefix string) string {
	if prefix == "" {
		return "."
	}
	return prefix
}
