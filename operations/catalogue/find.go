package catalogue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/operations/sidecar"
)

// tries is how many pods of an owner are asked until one answers.
const tries = 3

// cluster is a prefix of the storage, and pods that look below it.
type cluster struct {
	prefix string
	pods   []*corev1.Pod
	nodes  []string // what they are called in backups
}

// find asks a pod of each owner which prefix it looks below. Several owners, such as a
// StatefulSet for each rack, are one cluster. Of an owner none of whose pods answers it
// tells why.
func (c *Catalogue) find(ctx context.Context, namespace string) ([]cluster, []Document, error) {
	groups, err := c.groups(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	c.forgetOthers(namespace, groups)
	pods, reports, troubles := make([]*corev1.Pod, len(groups)), make([]node.Report, len(groups)), make([]*Document, len(groups))
	turn := make(chan struct{}, 8)
	var all sync.WaitGroup
	for i := range groups {
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			pods[i], reports[i], troubles[i] = c.speaker(ctx, &groups[i])
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("asking the pods of namespace %s: %w", namespace, context.Cause(ctx))
	}
	by := map[string]*cluster{}
	var failed []Document
	for i, pod := range pods {
		switch {
		case troubles[i] != nil:
			failed = append(failed, *troubles[i])
		case pod != nil:
			prefix := reports[i].Prefix
			if by[prefix] == nil {
				by[prefix] = &cluster{prefix: prefix}
			}
			by[prefix].pods, by[prefix].nodes = append(by[prefix].pods, pod), append(by[prefix].nodes, reports[i].Node)
		}
	}
	found := make([]cluster, 0, len(by))
	for _, each := range by {
		found = append(found, *each)
	}
	slices.SortFunc(found, func(a, b cluster) int { return cmp.Compare(a.prefix, b.prefix) })
	return found, failed, nil
}

// speaker is a pod of an owner that answers, and what it says. All of an owner have one
// prefix. A pod without a service of ours, as it was admitted before, is no trouble:
// coverage tells of it.
func (c *Catalogue) speaker(ctx context.Context, g *group) (*corev1.Pod, node.Report, *Document) {
	var trouble *Document
	for i := range g.pods[:min(tries, len(g.pods))] {
		slim := &g.pods[i]
		pod, err := c.whole(ctx, slim)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			report, asked := c.nodes.Report(ctx, pod)
			if asked == nil {
				return pod, report, nil
			}
			c.forget(slim.UID)
			if errors.Is(asked, sidecar.ErrNoService) {
				continue
			}
			err = asked
		}
		if trouble == nil {
			trouble = &Document{Pod: slim.Name, Failed: "no pod of its workload can be asked what the storage holds: " + strings.TrimSpace(err.Error())}
		}
	}
	return nil, node.Report{}, trouble
}
