package restore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// How long pods may take to answer, and how many are asked at a time.
const (
	reportLimit   = 10 * time.Second
	progressLimit = 3 * time.Second
	askedAtOnce   = 16
)

func asStatus(err error, status *apierrors.APIStatus) bool { return errors.As(err, status) }

// facts reads what a Restore is judged by, but for what the pods themselves tell.
func (r *reconciler) facts(ctx context.Context, restore *api.Restore) (Facts, error) {
	f := Facts{Restore: restore, Now: r.clock()}
	var err error
	if f.Labelled, err = r.cluster.labelled(ctx, restore.Namespace); err != nil {
		return f, err
	}
	all, err := r.cluster.restores(ctx, restore.Namespace)
	if err != nil {
		return f, err
	}
	for i := range all {
		if all[i].Name == restore.Name {
			continue
		}
		f.Others = append(f.Others, all[i])
		if all[i].Name == restore.Spec.Undo {
			f.Earlier = &all[i]
		}
	}
	pods, err := r.cluster.pods(ctx, restore.Namespace, nil)
	if err != nil {
		return f, err
	}
	f.choose(pods)
	f.widen(pods)
	if err := r.sets(ctx, &f, pods); err != nil {
		return f, err
	}
	f.awaitNodes(pods)
	f.Budgets, err = r.cluster.budgets(ctx, restore.Namespace)
	return f, err
}

// sets reads the StatefulSets of the pods, one for each rack or so; for a selector, and
// for Anna, all of the namespace, as one may have none of its pods yet.
func (r *reconciler) sets(ctx context.Context, f *Facts, pods []*corev1.Pod) error {
	f.Sets = map[string]*appsv1.StatefulSet{}
	selector := unsettled(f.Restore, f.Earlier)
	if selector != nil || kindOf(f.Pods) == api.KindAnna && f.Restore.Spec.Undo == "" {
		sets, err := r.cluster.sets(ctx, f.Restore.Namespace)
		if err != nil {
			return err
		}
		for _, set := range sets {
			f.Sets[set.Name] = set
		}
		if selector != nil {
			f.Awaited = awaited(sets, pods, selector)
		}
		return nil
	}
	for _, pod := range f.Pods {
		owner := metav1.GetControllerOf(pod)
		if !isSet(owner) {
			continue
		}
		if _, read := f.Sets[owner.Name]; read {
			continue
		}
		set, err := r.cluster.set(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name})
		if err != nil {
			return err
		}
		f.Sets[owner.Name] = set
	}
	return nil
}

// choose finds the pods that the Restore is about, and their kin.
func (f *Facts) choose(pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return natural(a.Name, b.Name) })
	names, selector := wanted(f.Restore, f.Earlier)
	owners, found := map[types.UID]bool{}, map[string]bool{}
	for _, pod := range pods {
		if !slices.Contains(names, pod.Name) && !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		f.Pods, found[pod.Name] = append(f.Pods, pod), true
		if owner := metav1.GetControllerOf(pod); owner != nil {
			owners[owner.UID] = true
		}
	}
	for _, name := range names {
		if !found[name] {
			f.Missing = append(f.Missing, name)
		}
	}
	for _, pod := range pods {
		if owner := metav1.GetControllerOf(pod); found[pod.Name] || owner != nil && owners[owner.UID] {
			f.Kin = append(f.Kin, pod)
		}
	}
}

// wanted are the names of the pods, or a selector: those that were settled, else
// those asked for.
func wanted(r, earlier *api.Restore) ([]string, labels.Selector) {
	names, selector := podNames(r), labels.Nothing()
	if accepted, _ := condition(&r.Status, api.ConditionAccepted); accepted {
		return names, selector
	}
	names, asked := Asked(r, earlier)
	if asked != nil {
		selector = asked
	}
	return names, selector
}

func podNames(r *api.Restore) (names []string) {
	for i := range r.Status.Pods {
		names = append(names, r.Status.Pods[i].Name)
	}
	return names
}

// reports asks pods what they know of themselves, some at a time.
func (r *reconciler) reports(ctx context.Context, pods []*corev1.Pod, limit time.Duration) (map[string]node.Report, map[string]error) {
	answers, silent := map[string]node.Report{}, map[string]error{}
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, askedAtOnce)
	for _, pod := range pods {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			limited, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			report, err := r.nodes.Report(limited, pod)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent[pod.Name] = err
				return
			}
			answers[pod.Name] = report
		})
	}
	group.Wait()
	return answers, silent
}

// world reads the pods of a Restore, and what their restore containers tell.
func (r *reconciler) world(ctx context.Context, restore *api.Restore) (world, error) {
	w := world{pods: map[string]*corev1.Pod{}, told: map[string]node.Done{}, progress: map[string]node.Progress{}, kept: map[string]bool{},
		replays: map[string]node.Replay{}, silent: map[string]string{}}
	names := podNames(restore)
	if len(names) == 0 {
		return w, nil
	}
	pods, err := r.cluster.pods(ctx, restore.Namespace, names)
	if err != nil {
		return w, err
	}
	for _, pod := range pods {
		w.pods[pod.Name] = pod
	}
	cancelling := stageOf(restore) == stageCancel
	c := newCourse(restore, w, r.clock())
	w.askAgain = cancelling && r.throttle.askAgain(restore.UID, r.clock())
	r.askContainers(ctx, c, cancelling)
	r.askReplays(ctx, c)
	if len(c.names(bare)) > 0 {
		labelled, err := r.cluster.labelled(ctx, restore.Namespace)
		if err != nil {
			return w, err
		}
		w.unlabelled = !labelled
	}
	if len(c.names(old))+len(c.turns()) > 0 && !cancelling && !restore.Spec.Suspend && restore.Status.Phase != api.RestoreFailed && restore.Status.Probe != "" {
		if w.probe, err = r.cluster.probe(ctx, restore); ctx.Err() != nil {
			return w, err
		} else if err != nil {
			// Such as a webhook of others that is down. The pods that restore, and the
			// deadline, have nothing to do with that.
			w.probe = probe{failed: line(err.Error())}
		}
		if !w.probe.refused { // somebody may have taken the label off, without which nothing is
			if err := r.mark(ctx, restore); ctx.Err() != nil {
				return w, err
			} else if err != nil && w.probe.failed == "" {
				w.probe = probe{failed: line(err.Error())}
			}
		}
	}
	return w, nil
}

// askContainers asks the restore containers that run how far they are, when that is to
// be written, and the sidecars of pods whose outcome was lost what their volume holds.
func (r *reconciler) askContainers(ctx context.Context, c *course, always bool) {
	lost := map[string]bool{}
	var asked []*corev1.Pod
	for name, s := range c.seen {
		switch {
		case s.sight == unclear:
			lost[name] = true
			asked = append(asked, s.pod)
		case s.sight == restoring && s.failure == "" || s.sight == restoring && restoreStatus(s.pod).State.Running != nil:
			if always || r.throttle.due(c.r.UID, r.clock()) {
				asked = append(asked, s.pod)
			}
		}
	}
	if always { // those that are being ended, too: what they have begun meanwhile
		for name, pod := range c.w.pods {
			at := c.r.Status.Pod(name)
			if at != nil && at.Phase == api.PodCancelled && c.r.Status.ID != "" && restoreID(pod) == c.r.Status.ID && runsNow(pod) {
				asked = append(asked, pod)
			}
		}
	}
	if len(asked) == 0 {
		return
	}
	answers, _ := r.reports(ctx, asked, progressLimit)
	for name, report := range answers {
		if report.Restore != nil {
			c.w.progress[name] = *report.Restore
		}
		c.w.kept[name] = slices.ContainsFunc(report.Previous, func(p node.Previous) bool { return p.ID == c.r.Status.ID })
		if !lost[name] {
			continue
		}
		for _, done := range report.Done {
			if done.ID == c.r.Status.ID {
				c.w.told[name] = done
			}
		}
	}
}
