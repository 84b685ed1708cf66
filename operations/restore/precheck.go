package restore

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
)

// planner is the pure side: what may be restored, and how. Tests have their own.
type planner struct {
	accept  func(Facts) ([]string, *Problem)
	pod     func(*corev1.Pod) *Problem
	resolve func(f Facts) (string, *Problem)
	plan    func(Facts) ([]api.PodRestore, string, *Problem)
}

var realPlanner = planner{accept: Accept, pod: CheckPod, plan: Plan, resolve: resolve}

// precheck finds out whether anything speaks against a Restore that was accepted.
func (r *reconciler) precheck(ctx context.Context, restore *api.Restore) (*verdict, error) {
	f, err := r.facts(ctx, restore)
	if err != nil {
		return nil, err
	}
	f.Reports, f.Silent = r.reports(ctx, f.Pods, reportLimit)
	v := &verdict{done: doneBefore(restore.Status.ID, f.Reports, kindOf(f.Pods)), kind: kindOf(f.Pods)}
	if v.kind == api.KindAnna && len(v.done) < len(restore.Status.Pods) {
		v.done = map[string]node.Done{} // all of its nodes together, or none
	}
	if restore.Spec.Mode == api.Remote {
		maps.DeleteFunc(v.done, func(name string, _ node.Done) bool { return !joined(f.Pods, name) })
	}
	if len(v.done) > 0 && len(v.done) == len(restore.Status.Pods) {
		v.pods, v.message = slices.Clone(restore.Status.Pods), "this very request was done before, on every pod; nothing is touched"
		return v, nil
	}
	if v.problem = r.changed(&f); v.problem != nil {
		return v, nil
	}
	if restore.Spec.Mode != api.Remote { // where pods are matched with nodes all together
		f.Pods = slices.DeleteFunc(slices.Clone(f.Pods), func(pod *corev1.Pod) bool { _, done := v.done[pod.Name]; return done })
	}
	if f.Earlier != nil {
		v.undoID = f.Earlier.Status.ID
	}
	if restore.Spec.Undo == "" {
		if prefix := SourcePrefix(restore); prefix != nil {
			if v.prefix = *prefix; v.prefix == "" {
				v.prefix = noPrefix
			}
		}
		if err := r.findBackup(ctx, &f, v); err != nil || v.problem != nil {
			return v, err
		}
		v.backup, v.finished = f.Backup.Name, f.Backup.Finished
	}
	pods, message, problem := r.planner.plan(f)
	if v.problem, v.message = problem, message; problem == nil {
		v.pods = withDone(restore, pods, v.done)
	}
	return v, nil
}

// changed tells whether a pod is not any more as it was when it was accepted.
func (r *reconciler) changed(f *Facts) *Problem {
	if len(f.Missing) > 0 {
		return &Problem{Reason: ReasonPodNotFound, Wait: true, Message: "waits for " + someOf(f.Missing) + " to come back, which was there when this was accepted"}
	}
	for _, pod := range f.Pods {
		p := sidecarOf(pod)
		if f.Restore.Spec.Mode != api.Merge {
			p = r.planner.pod(pod)
		} else if p == nil {
			p = merges(pod)
		}
		if p != nil {
			return p
		}
	}
	return f.comeAgain(f.Pods)
}

// joined tells whether a pod that is restored needs its tokens no more.
func joined(pods []*corev1.Pod, name string) bool {
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == name && ready(pod) })
}

// doneBefore are the pods whose volumes remember the request. Of Anna they remember that
// the part was fetched; that it was written the sidecar knows, for as long as the pod is
// there.
func doneBefore(id string, reports map[string]node.Report, kind string) map[string]node.Done {
	found := map[string]node.Done{}
	for name, report := range reports {
		for _, done := range report.Done {
			if done.ID == id && (kind != api.KindAnna || done.Action == string(api.ActionUndo)) {
				found[name] = done
			}
		}
		if replay := report.Replay; replay != nil && replay.ID == id && replay.Phase == node.ReplayDone {
			found[name] = node.Done{ID: id, Backup: replay.Backup, Started: replay.Started, Finished: replay.Ended}
		}
	}
	return found
}

// withDone is the plan with the pods that are done already, in the order of the pods.
func withDone(r *api.Restore, planned []api.PodRestore, done map[string]node.Done) (all []api.PodRestore) {
	for _, was := range r.Status.Pods {
		i := slices.IndexFunc(planned, func(p api.PodRestore) bool { return p.Name == was.Name })
		if _, ok := done[was.Name]; i < 0 && ok {
			all = append(all, was)
		} else if i >= 0 {
			all = append(all, planned[i])
		}
	}
	return all
}

// noPrefix stands for what is in the storage below no prefix, as an empty one is the
// pods' own (agent/lookup.NoPrefix).
const noPrefix = "."

// lookers are the pods that answer: those to restore, or where they are silent some
// of those beside them.
func (r *reconciler) lookers(ctx context.Context, f *Facts) (pods []*corev1.Pod) {
	var beside []*corev1.Pod
	for _, pod := range f.Kin {
		_, answered := f.Reports[pod.Name]
		_, silent := f.Silent[pod.Name]
		switch {
		case answered:
			pods = append(pods, pod)
		case !silent && usable(pod) && len(beside) < triesOfStorage:
			beside = append(beside, pod)
		}
	}
	if len(pods) > 0 || len(beside) == 0 {
		return pods
	}
	answers, _ := r.reports(ctx, beside, progressLimit)
	return slices.DeleteFunc(beside, func(pod *corev1.Pod) bool { _, answered := answers[pod.Name]; return !answered })
}

// like is the pod after which one is made that looks into the storage.
func like(f *Facts) *corev1.Pod {
	all := slices.Concat(f.Pods, f.Kin)
	if i := slices.IndexFunc(all, usable); i >= 0 {
		return all[i]
	}
	return all[0]
}

// usable tells whether a pod has a sidecar, and one that was not made harmless: that
// one is an idle container of another image (operations/heal).
func usable(pod *corev1.Pod) bool {
	return kvs.Sidecar(pod) != nil && !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == api.ConditionDegraded && c.Status == corev1.ConditionTrue
	})
}

// asBefore is what to look for where some pods have the request behind them: the
// backup that they got, though another may be the latest by now.
func asBefore(f Facts, done map[string]node.Done) Facts {
	for _, d := range done {
		if slices.ContainsFunc(f.Backups.Backups, func(s node.Summary) bool { return s.Name == d.Backup }) {
			f.Restore = f.Restore.DeepCopy()
			f.Restore.Spec.Backup = d.Backup
		}
	}
	return f
}
