package cycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/scope"
)

// reconciler looks at one namespace after the other.
type reconciler struct {
	cached  client.Reader // injected pods, StatefulSets, metadata of namespaces
	live    client.Reader
	write   *writer
	options Options
	memory  *memory
}

// Reconcile looks at the namespace of the name, and again after a while as long as a pod
// there has a ConfigMap.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	name := request.Name
	namespace := namespaceMeta()
	if err := r.cached.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		r.memory.figures(name, nil)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var pods corev1.PodList
	if err := r.cached.List(ctx, &pods, client.InNamespace(name)); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the injected pods of namespace %s: %w", name, err)
	}
	members, failed := r.members(ctx, pods.Items)
	groups := groupsOf(members, func(o owner) int { return r.wanted(ctx, name, o) })
	figures := map[string]int{}
	again := time.Duration(0)
	if len(members) > 0 {
		again = r.options.Every
	}
	away := r.memory.away(name, groups, r.options.Clock())
	situations := make([]situation, len(groups))
	for i, g := range groups {
		s := situation{restoring: namespace.Labels[api.LabelRestoring] == api.RestoringTrue, settle: r.options.Settle,
			restart: func(pod *corev1.Pod) bool {
				return scope.Asks(namespace, r.options.Namespace) && restarts(pod, namespace.Annotations)
			}}
		s.evicted, s.calm = r.memory.of(g, r.options.Clock())
		situations[i] = s
	}
	for i, g := range groups {
		s := situations[i]
		s.others = slices.ContainsFunc(away, g.follows)
		for j, other := range groups {
			s.others = s.others || i != j && g.shares(other) && !other.whole(situations[j])
		}
		out := g.next(s)
		figures[g.name()] += len(out.outdated)
		if err := r.carryOut(ctx, g, out, members); err != nil {
			failed = errors.Join(failed, err)
		}
		situations[i].evicted, situations[i].calm = r.memory.of(g, r.options.Clock()) // one may have gone just now
		if out.wait == waitSettle {
			again = min(again, max(s.settle-s.calm, time.Second))
		}
	}
	r.memory.figures(name, figures)
	r.memory.forget(name, groups)
	if failed != nil {
		return reconcile.Result{}, failed
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// restarts tells whether a pod is to be re-created when its ConfigMap changes.
func restarts(pod *corev1.Pod, namespace map[string]string) bool {
	if value, ok := pod.Annotations[api.AnnotationOnConfigChange]; ok {
		return value == api.OnConfigChangeRestart
	}
	return namespace[api.AnnotationOnConfigChange] == api.OnConfigChangeRestart
}

// members are the pods with a ConfigMap. What one was started with is written on it when
// it is first seen.
func (r *reconciler) members(ctx context.Context, pods []corev1.Pod) (members []member, failed error) {
	maps := map[string]*corev1.ConfigMap{} // of the namespace; nil for one that is not there
	for i := range pods {
		pod := &pods[i]
		name := configMapOf(pod)
		if name == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		m, read := maps[name]
		if !read {
			var err error
			if m, err = r.configMap(ctx, pod.Namespace, name); err != nil {
				failed = errors.Join(failed, err)
			}
			maps[name] = m
		}
		is := member{pod: pod, started: startedWith(pod)}
		if is.started == "" {
			is.started = r.memory.started(pod)
		}
		if m != nil {
			is.current = digestOf(m)
			if is.started == "" && pod.DeletionTimestamp == nil {
				var err error
				if is.started, err = r.see(ctx, pod, m); err != nil {
					failed = errors.Join(failed, err)
				}
			}
			is.diskAlone = r.memory.onDiskAlone(is.started, is.current, onDiskAlone(m))
		}
		members = append(members, is)
	}
	return members, failed
}

// configMap reads a ConfigMap; nil where there is none.
func (r *reconciler) configMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	m := &corev1.ConfigMap{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, m)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err): // somebody has taken the right away, or not given it yet
		if r.memory.once(namespace, name) {
			log.FromContext(ctx).Error(err, "changes of a ConfigMap are not followed, as it may not be read", "configMap", name)
		}
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name, err)
	}
	return m, nil
}

// see writes on a pod what it was started with; empty while it has not been.
func (r *reconciler) see(ctx context.Context, slim *corev1.Pod, m *corev1.ConfigMap) (string, error) {
	pod := &corev1.Pod{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(slim), pod); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if pod.UID != slim.UID {
		return "", nil // the cache will tell
	}
	if digest := startedWith(pod); digest != "" {
		return digest, nil
	}
	digest, ok := firstSight(pod, m)
	if !ok {
		return "", nil
	}
	if err := r.write.started(ctx, pod, digest); err != nil {
		return "", err
	}
	r.memory.start(pod, digest)
	return digest, nil
}

// wanted is how many pods a StatefulSet is to have; 0 for another owner.
func (r *reconciler) wanted(ctx context.Context, namespace string, o owner) int {
	if o.kind != "StatefulSet" || !strings.HasPrefix(o.version, appsv1.GroupName+"/") {
		return 0
	}
	set := &appsv1.StatefulSet{}
	if err := r.cached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.name}, set); err != nil {
		return 0
	}
	if set.Spec.Replicas == nil {
		return 1
	}
	return int(*set.Spec.Replicas)
}

// carryOut evicts a pod, or tells of those that are outdated. All are the pods of the
// namespace that have a ConfigMap.
func (r *reconciler) carryOut(ctx context.Context, g *group, out step, all []member) error {
	if len(out.outdated) == 0 {
		r.memory.news(g, "")
		return nil
	}
	if out.evict == nil {
		switch out.wait {
		case waitNotAsked, waitNobody:
			r.tellOnce(g, eventOutdated, outdatedText(out))
		case waitLast:
			r.held(g, out.outdated[0].pod, "it is the only node of its tier, and no key is seen any more when it is started anew. Scale the tier up, or make a backup, delete the pod and restore")
		}
		return nil
	}
	pod := &corev1.Pod{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(out.evict.pod), pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	if pod.UID != out.evict.pod.UID || pod.DeletionTimestamp != nil {
		return nil // the cache will tell
	}
	if why := held(pod); why != "" && !ready(pod) {
		r.held(g, pod, why)
		return nil
	}
	if live := (member{pod: pod, diskAlone: out.evict.diskAlone}); ready(pod) && live.keeps() && !departs(pod) {
		r.held(g, pod, "it holds keys that are gone with it, and has no preStop hook that hands them over (where the cluster has no native sidecars none is added). Make a backup, delete the pods and restore")
		return nil
	}
	why, err := r.busy(ctx, pod.Namespace, all)
	if err != nil {
		return err
	}
	if why != "" {
		r.held(g, pod, why)
		return nil
	}
	switch err := r.write.evict(ctx, pod); {
	case apierrors.IsTooManyRequests(err):
		restarted.WithLabelValues(resultHeld).Inc()
		r.tellOnce(g, eventHeld, fmt.Sprintf("pod %s is not re-created for its changed ConfigMap %s as long as a PodDisruptionBudget does not allow it: %v", pod.Name, configMapOf(pod), err))
		return nil
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return nil // it is another by now
	case err != nil:
		restarted.WithLabelValues(resultFailed).Inc()
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	restarted.WithLabelValues(resultEvicted).Inc()
	r.memory.evict(g, pod, r.options.Clock())
	r.memory.news(g, "")
	log.FromContext(ctx).Info("pod evicted for its changed ConfigMap", "pod", pod.Name, "configMap", configMapOf(pod), "left", len(out.outdated)-1)
	r.write.say(g, pod.Namespace, corev1.EventTypeNormal, eventRestart, fmt.Sprintf("pod %s is re-created: ConfigMap %s has changed since it was started; %d of %d pods are left",
		pod.Name, configMapOf(pod), len(out.outdated)-1, len(g.members)))
	return nil
}

// outdatedText says which pods are outdated, and what to do.
func outdatedText(out step) string {
	names := map[string][]string{}
	var maps []string
	for _, m := range out.outdated {
		name := configMapOf(m.pod)
		if len(names[name]) == 0 {
			maps = append(maps, name)
		}
		names[name] = append(names[name], m.pod.Name)
	}
	var parts []string
	for _, name := range maps {
		parts = append(parts, fmt.Sprintf("ConfigMap %s has changed since %s started", name, someOf(names[name])))
	}
	text := strings.Join(parts, "; ") + ": they go on with what it said before"
	if out.wait == waitNobody {
		return text + ", and nobody would make the pod anew"
	}
	return text + fmt.Sprintf("; re-create them one at a time, or have annotation %s: %s do it", api.AnnotationOnConfigChange, api.OnConfigChangeRestart)
}

func someOf(names []string) string {
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", len(names)-5)
	}
	return strings.Join(names, ", ")
}

func (r *reconciler) held(g *group, pod *corev1.Pod, why string) {
	r.tellOnce(g, eventHeld, fmt.Sprintf("pod %s is not re-created for its changed ConfigMap %s: %s", pod.Name, configMapOf(pod), why))
}

func (r *reconciler) tellOnce(g *group, event, text string) {
	if r.memory.news(g, text) {
		r.write.say(g, g.members[0].pod.Namespace, corev1.EventTypeWarning, event, text)
	}
}
