package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar"
)

const (
	// checkEvery is how often the storage is asked while pods upload, and again where it
	// does not answer; where that takes long, ten times as long passes between, up to
	// checkLate; twice as long where no sidecar is reached, which costs the storage nothing.
	checkEvery = 10 * time.Second
	checkLate  = 5 * time.Minute
	// checkLimit is how long it may take to answer.
	checkLimit = 2 * time.Minute
	// checkBy is how many pods are asked for it before it is held to be at fault.
	checkBy = 3
)

// check asks the storage what it has of the backup, once for all pods that are done.
func (r *reconciler) check(ctx context.Context, b *api.Backup, n *notes, w *world) {
	now := r.clock()
	checking, running := 0, 0
	for i := range b.Status.Pods {
		at := &b.Status.Pods[i]
		switch {
		case at.Phase == api.PodBackupChecking || !at.Phase.Final() && w.pods[at.Name].sight == succeededSight:
			checking++
		case at.Phase == api.PodBackupRunning:
			running++
		}
	}
	if checking == 0 {
		n.doubt = doubt{}
		return
	}
	w.doubt = n.doubt
	if (running > 0 || n.unknown != "") && now.Before(n.recheck) {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, checkLimit, fmt.Errorf("no answer within %v", checkLimit))
	defer cancel()
	q := &inquiry{r: r, b: b, n: n, addresses: map[string]bool{}}
	w.stored = q.ask(ctx)
	n.doubt = doubt{}
	if w.stored == nil {
		n.doubt = doubt{unknown: line(q.failed.Error()), unreached: q.answered == 0, nobody: q.nobody}
	}
	w.doubt = n.doubt
	ended, times := r.clock(), time.Duration(10)
	if n.unreached {
		times = 2
	}
	n.recheck = ended.Add(min(max(checkEvery, times*ended.Sub(now)), checkLate))
}

// inquiry asks one pod after another what the storage has: any pod of the cluster can
// tell.
type inquiry struct {
	r         *reconciler
	b         *api.Backup
	n         *notes
	addresses map[string]bool // that were asked
	answered  int             // how many sidecars did, if only that the storage does not
	nobody    bool            // no pod of the cluster is there
	failed    error
}

// ask goes by what is kept of the Backup's pods, and where none of these answers by the
// pods that there are, which are read for it.
func (q *inquiry) ask(ctx context.Context) *node.Backup {
	for _, p := range q.kept(ctx) {
		before := q.answered
		stored := q.one(ctx, p.pod)
		if stored != nil {
			return stored
		}
		p.stale = q.answered == before
		if len(q.addresses) >= checkBy {
			break
		}
	}
	if q.answered > 0 {
		return nil
	}
	pods, err := q.r.injected(ctx, q.b.Namespace)
	if err != nil {
		q.failed = err
		return nil
	}
	return q.anew(ctx, pods)
}

// kept are the Backup's pods that are known to be there, and have answered when they were
// asked last.
func (q *inquiry) kept(ctx context.Context) (list []*note) {
	for i := range q.b.Status.Pods {
		name := q.b.Status.Pods[i].Name
		p := q.n.pods[name]
		if p == nil || p.pod == nil || p.absent || p.stale || p.why != "" {
			continue
		}
		g, err := q.r.cluster.glimpse(ctx, types.NamespacedName{Namespace: q.b.Namespace, Name: name})
		if err == nil && g.there && g.uid == p.uid {
			list = append(list, p)
		}
	}
	return list
}

// anew asks pods that were just read, those of the Backup first. Of others only those
// are of its cluster whose backups go below its prefix.
func (q *inquiry) anew(ctx context.Context, pods []*corev1.Pod) *node.Backup {
	own := func(pod *corev1.Pod) bool { return q.b.Status.Pod(pod.Name) != nil }
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		switch {
		case own(a) == own(b):
			return 0
		case own(a):
			return -1
		}
		return 1
	})
	mine := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return !own(pod) })
	if mine < 0 {
		mine = len(pods)
	}
	q.nobody = mine == 0
	// Others are asked each time, if not all of them can be.
	for _, part := range [][]*corev1.Pod{turned(pods[:mine], q.n.round), turned(pods[mine:], q.n.round)} {
		asked := 0
		for _, pod := range part {
			if asked == checkBy {
				q.nobody = false // there may be one
				break
			}
			if foreign(pod) != "" || CheckPod(pod) != "" || !up(pod) || q.addresses[address(pod)] {
				continue
			}
			asked++
			if stored := q.fresh(ctx, pod, own(pod)); stored != nil {
				return stored
			}
		}
	}
	q.n.round += checkBy
	if q.failed == nil {
		q.failed = errors.New("none of its pods runs")
	}
	return nil
}

// fresh asks a pod that was just read.
func (q *inquiry) fresh(ctx context.Context, pod *corev1.Pod, own bool) *node.Backup {
	if own {
		p := q.n.pod(pod.Name)
		p.keep(pod, q.r.clock())
		before := q.answered
		stored := q.one(ctx, pod)
		p.stale = stored == nil && q.answered == before
		return stored
	}
	report, err := q.r.ask.Report(ctx, pod)
	if err == nil && report.Prefix != q.b.Status.Prefix {
		return nil
	}
	q.nobody = false
	if err != nil {
		q.failed = err
		return nil
	}
	stored := q.one(ctx, pod)
	if stored != nil && len(stored.Members) == 0 { // it may look elsewhere
		q.failed = fmt.Errorf("pod %s, which the Backup is not about, finds nothing of it", pod.Name)
		return nil
	}
	return stored
}

// one asks one pod.
func (q *inquiry) one(ctx context.Context, pod *corev1.Pod) *node.Backup {
	q.addresses[address(pod)] = true
	stored, err := q.r.ask.Backup(ctx, pod, storagePrefix(q.b.Status.Prefix), q.b.Status.Name)
	if err == nil {
		q.answered++
		return &stored
	}
	if !errors.Is(err, sidecar.ErrUnreachable) && !errors.Is(err, sidecar.ErrNoService) {
		q.answered++
	}
	q.failed = err
	return nil
}

// address is of a pod what it was asked by.
func address(pod *corev1.Pod) string {
	return string(pod.UID) + " " + pod.Status.PodIP + fmt.Sprint(" ", up(pod))
}

// up tells whether a pod's Medusa runs, or what restores it.
func up(pod *corev1.Pod) bool {
	runs := func(s corev1.ContainerStatus) bool { return s.State.Running != nil }
	return pod.Status.PodIP != "" && (slices.ContainsFunc(pod.Status.ContainerStatuses, runs) || slices.ContainsFunc(pod.Status.InitContainerStatuses, runs))
}

// turned is a list that begins elsewhere.
func turned[T any](list []T, by int) []T {
	if len(list) == 0 {
		return nil
	}
	by %= len(list)
	return slices.Concat(list[by:], list[:by])
}

// injected reads all pods that have sidecars.
func (r *reconciler) injected(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	injected, err := labels.NewRequirement(api.LabelInjected, selection.Exists, nil)
	if err != nil {
		panic(err) // of a constant
	}
	return r.cluster.pods(ctx, namespace, labels.NewSelector().Add(*injected))
}

// storagePrefix is a prefix as api/node is asked for it: empty would be the pod's own.
func storagePrefix(prefix string) string {
	if prefix == "" {
		return "."
	}
	return prefix
}
