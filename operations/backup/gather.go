package backup

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/claims"
	"github.com/stategraft/stategraft/operations/kvs"
)

const (
	// fewPods are read one by one; for more, a list of the namespace's is cheaper.
	fewPods = 3
	// readEvery is how often a pod that does not answer is read anew, as its address may
	// have changed.
	readEvery = 30 * time.Second
	// renewEvery is how often what is in the way is written anew, if only its words change.
	renewEvery = time.Minute
)

// facts reads what a Backup is accepted by, but for what the pods themselves tell.
func (r *reconciler) facts(ctx context.Context, b *api.Backup) (f Facts, err error) {
	f = Facts{Backup: b, Now: r.clock()}
	if f.Labelled, f.Terminating, err = r.cluster.namespace(ctx, b.Namespace); err != nil || !f.Labelled {
		return f, err
	}
	spec := b.Spec.Pods
	if spec == nil {
		return f, nil
	}
	if w := spec.Workload; w != nil && orElse(w.Kind, kindSet) == kindSet {
		if f.Set, err = r.cluster.set(ctx, types.NamespacedName{Namespace: b.Namespace, Name: w.Name}); err != nil {
			return f, err
		}
	}
	if len(spec.Names) > 0 && len(spec.Names) <= fewPods {
		for _, name := range spec.Names {
			pod, err := r.cluster.pod(ctx, types.NamespacedName{Namespace: b.Namespace, Name: name})
			if err != nil {
				return f, err
			}
			if pod != nil {
				f.Pods = append(f.Pods, pod)
			}
		}
		return f, r.widen(ctx, &f)
	}
	selector := labels.Everything()
	if spec.Selector != nil {
		if selector, err = metav1.LabelSelectorAsSelector(spec.Selector); err != nil {
			return f, nil //nolint:nilerr // candidates tells of it
		}
	}
	if f.Pods, err = r.cluster.pods(ctx, b.Namespace, selector); err != nil {
		return f, err
	}
	return f, r.widen(ctx, &f)
}

// widen reads the pods among which those of a cluster of Anna are.
func (r *reconciler) widen(ctx context.Context, f *Facts) (err error) {
	if slices.ContainsFunc(f.Pods, kvs.HoldsData) {
		f.Cluster, err = r.injected(ctx, f.Backup.Namespace)
	}
	return err
}

// reports asks pods what they know of themselves.
func (r *reconciler) reports(ctx context.Context, pods []*corev1.Pod) (map[string]node.Report, map[string]error) {
	answers, silent := map[string]node.Report{}, map[string]error{}
	var mu sync.Mutex
	r.each(len(pods), func(i int) {
		pod := pods[i]
		report, err := r.ask.Report(ctx, pod)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			silent[pod.Name] = err
			return
		}
		answers[pod.Name] = report
	})
	return answers, silent
}

// together does something for so many at once; those who ask pods wait for a slot.
func together(n int, do func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { do(i) })
	}
	group.Wait()
}

// world reads and asks the pods of a Backup that runs.
func (r *reconciler) world(ctx context.Context, b *api.Backup, n *notes) (world, error) {
	now := r.clock()
	w := world{pods: map[string]seen{}, limit: r.limit, renew: now.Sub(n.renewed) >= renewEvery}
	if w.renew {
		n.renewed = now
	}
	end := deadline(b, &b.Status)
	if !now.Before(end) {
		return w, nil
	}
	// Whatever a pod does, the Backup ends in time.
	ctx, cancel := context.WithTimeout(ctx, end.Sub(now))
	defer cancel()
	if !n.turn && !cancelled(b) {
		p, err := r.take(ctx, b, n, claims.Cluster{Prefix: b.Status.Prefix, Namespace: b.Namespace})
		if err != nil {
			return w, err
		} else if p != nil {
			w.busy = p.Message
		}
	}
	asked, err := r.look(ctx, b, n, &w)
	if err != nil {
		return w, err
	}
	r.observePods(ctx, b, n, &w, asked)
	r.check(ctx, b, n, &w)
	return w, nil
}

// look glimpses at all pods that are not final, and reads those that are to be asked
// and are not known well enough.
func (r *reconciler) look(ctx context.Context, b *api.Backup, n *notes, w *world) (asked []*api.PodBackup, err error) {
	now := r.clock()
	var read []string
	room := b.Spec.Parallel
	for i := range b.Status.Pods {
		at := &b.Status.Pods[i]
		if at.Phase.Final() {
			continue
		}
		p := n.pod(at.Name)
		g, err := r.cluster.glimpse(ctx, types.NamespacedName{Namespace: b.Namespace, Name: at.Name})
		if err != nil {
			return nil, err
		}
		if at.Phase == api.PodBackupRunning {
			room--
		}
		if !g.there {
			// The informer may lag, and knows only injected pods: look before giving up, and
			// whether one that it does not know is still there.
			if (p.unlabelled() || p.absent && now.Sub(p.since) >= r.limit) && now.Sub(p.read) >= readEvery {
				read = append(read, at.Name)
			}
			if !p.unlabelled() {
				p.misses(true, "", now)
			}
			continue
		}
		p.leaving = g.leaving
		if p.absent {
			p.answers()
		}
		if p.pod == nil || p.uid != g.uid || p.stale && (p.version != g.version || now.Sub(p.read) >= readEvery) {
			read = append(read, at.Name)
			p.version = g.version
		}
	}
	if err := r.read(ctx, b, n, read); err != nil {
		return nil, err
	}
	for i := range b.Status.Pods {
		at := &b.Status.Pods[i]
		if at.Phase.Final() {
			continue
		}
		p := n.pod(at.Name)
		w.pods[at.Name] = p.seen(at)
		if p.pod == nil || p.absent || now.Before(p.due) {
			continue
		}
		switch at.Phase {
		case api.PodBackupRunning:
			asked = append(asked, at)
		case api.PodBackupWaiting:
			if b.Spec.Suspend || cancelled(b) || w.busy != "" || now.Before(nextTry(at)) || b.Spec.Parallel > 0 && room <= 0 {
				continue
			}
			room--
			asked = append(asked, at)
		}
	}
	return asked, nil
}

// read reads pods anew.
func (r *reconciler) read(ctx context.Context, b *api.Backup, n *notes, names []string) error {
	if len(names) == 0 {
		return nil
	}
	found := map[string]*corev1.Pod{}
	if len(names) > fewPods {
		pods, err := r.injected(ctx, b.Namespace)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			found[pod.Name] = pod
		}
		if slices.ContainsFunc(names, func(name string) bool { return found[name] == nil }) { // they may be without sidecars
			if pods, err = r.cluster.pods(ctx, b.Namespace, labels.Everything()); err != nil {
				return err
			}
			for _, pod := range pods {
				found[pod.Name] = pod
			}
		}
	} else {
		for _, name := range names {
			pod, err := r.cluster.pod(ctx, types.NamespacedName{Namespace: b.Namespace, Name: name})
			if err != nil {
				return err
			}
			found[name] = pod
		}
	}
	now := r.clock()
	for _, name := range names {
		p := n.pod(name)
		p.read = now
		if pod := found[name]; pod != nil {
			p.keep(pod, now)
			p.due = time.Time{}
		} else {
			p.vanished(now)
		}
	}
	return nil
}
