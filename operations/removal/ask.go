package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/workload"
)

// atOnce is how many pods are asked at a time.
const atOnce = 16

func (r *Remover) now() time.Time {
	if r.Clock != nil {
		return r.Clock()
	}
	return time.Now()
}

// order has the pods that run, those that are likely to have a part first.
func (r *Remover) order(b *api.Backup, all []corev1.Pod) []corev1.Pod {
	has := map[string]bool{}
	for i := range b.Status.Pods {
		has[b.Status.Pods[i].Name] = true
	}
	var first, rest []corev1.Pod
	for i := range all {
		switch {
		case all[i].DeletionTimestamp != nil || all[i].Status.PodIP == "":
		case foreign(b, &all[i]):
		case has[all[i].Name]:
			first = append(first, all[i])
		default:
			rest = append(rest, all[i])
		}
	}
	return slices.Concat(first, rest)
}

// foreign tells of a pod whose database is of another kind than that of a backup: below the
// same prefix neither sees the other's backups, and would tell that nothing is left of one.
func foreign(b *api.Backup, pod *corev1.Pod) bool {
	keys := slices.ContainsFunc(b.Status.Pods, func(p api.PodBackup) bool { return p.Keys > 0 })
	tokens := slices.ContainsFunc(b.Status.Pods, func(p api.PodBackup) bool { return p.Tokens > 0 })
	return keys && !kvs.Of(pod) || tokens && kvs.Of(pod)
}

// speaker finds a pod that answers, and looks below the prefix.
func (r *Remover) speaker(ctx context.Context, pods []corev1.Pod, prefix string) (*corev1.Pod, error) {
	var failed error
	other := ""
	for i := range pods {
		report, err := r.Nodes.Report(ctx, &pods[i])
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("asking pods of the backup: %w", context.Cause(ctx))
		case errors.Is(err, sidecar.ErrNoService):
		case err != nil:
			failed = err
		case report.Prefix != prefix:
			other = fmt.Sprintf("pod %s looks below %q", pods[i].Name, workload.Short(report.Prefix))
		default:
			return &pods[i], nil
		}
	}
	switch {
	case failed != nil:
		return nil, waitFor(SidecarUnreachable, failed, "the data are deleted through a sidecar of the cluster, and none answers: %v", failed)
	case other != "":
		return nil, waitFor(OtherStorage, nil, "the data are below prefix %q of the storage, and no running pod of the namespace looks there (%s): start one that does, or set deletionPolicy: Keep to let the object go and keep the data", prefix, other)
	}
	return nil, waitFor(NoSidecar, nil, "the data are deleted through a sidecar of the cluster, and no pod of it runs: start one, or set deletionPolicy: Keep to let the object go and keep the data")
}

// list lists the storage below a prefix; without one, it is said so.
func (r *Remover) list(ctx context.Context, pod *corev1.Pod, prefix string) ([]node.Summary, error) {
	if prefix == "" {
		prefix = "." // an empty one is the pod's own
	}
	list, err := r.Nodes.Backups(ctx, pod, prefix)
	switch {
	case err == nil:
		return list.Backups, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("listing the storage: %w", context.Cause(ctx))
	case errors.Is(err, sidecar.ErrUnreachable):
		return nil, waitFor(SidecarUnreachable, err, "the storage cannot be listed, as the sidecar does not answer: %v", err)
	}
	return nil, waitFor(StorageUnreachable, err, "the storage cannot be listed: %v", err)
}

// survey asks all pods whether a backup runs. Those of other clusters and without a
// sidecar are left out.
func (r *Remover) survey(ctx context.Context, pods []corev1.Pod, prefix string) []answer {
	answers := make([]*answer, len(pods))
	turn := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range pods {
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			report, err := r.Nodes.Report(ctx, &pods[i])
			if errors.Is(err, sidecar.ErrNoService) || err == nil && report.Prefix != prefix {
				return
			}
			a := &answer{pod: &pods[i], node: report.Node, err: err}
			if a.node == "" {
				a.node = pods[i].Name
			}
			if report.BackupRunning {
				a.running = "a backup"
				if report.Backup != nil {
					a.running = "backup " + workload.Short(report.Backup.Name)
				}
			}
			answers[i] = a
		})
	}
	all.Wait()
	var said []answer
	for _, a := range answers {
		if a != nil {
			said = append(said, *a)
		}
	}
	return said
}
