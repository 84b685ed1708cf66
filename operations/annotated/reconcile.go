package annotated

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/rpo"
	wl "github.com/stategraft/stategraft/workload"
)

const (
	// absentFor is how long the pods of a BackupSchedule may be gone, with what made
	// them, before it is deleted: a chart may be installed anew.
	absentFor = 10 * time.Minute
	// unknownAgain is when a sidecar that did not answer is asked again, at first, and
	// unknownFor after how long that is told.
	unknownAgain = 15 * time.Second
	unknownFor   = 5 * time.Minute
	staleAgain   = 2 * time.Second
)

// reconciler looks at a namespace at a time.
type reconciler struct {
	objects client.Reader // cached: BackupSchedules
	cached  client.Reader // of the manager: injected pods as heal.ByObject keeps them, namespaces, StatefulSets
	live    client.Reader
	nodes   Nodes
	own     string // Stategraft's namespace
	now     func() time.Time
	write   *writer
	memory  *memory
}

// look is a namespace that is looked at.
type look struct {
	*reconciler
	namespace   string
	annotations map[string]string
	passing     []passing                      // bad values since the last look
	schedules   []api.BackupSchedule           // all of it
	claimed     map[string]bool                // names of annotated ones whose cluster is there
	kept        map[string]bool                // and of those whose may be, as far as is known
	every       []metav1.PartialObjectMetadata // all pods, once they were read
	unknown     []rpo.Owner                    // workloads of which it is not known which cluster they are of
	waiting     bool                           // for them, before anything is made
	again       time.Duration                  // 0 for not again
}

// Reconcile implements reconcile.Reconciler. What a namespace without the label has is
// left as it is.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (_ reconcile.Result, failed error) {
	l := &look{reconciler: r, namespace: request.Name, claimed: map[string]bool{}, kept: map[string]bool{}, passing: r.memory.take(request.Name)}
	defer func() {
		if failed != nil { // the next look tells what this one has not
			for _, p := range l.passing {
				r.memory.wait(l.namespace, p)
			}
		}
	}()
	asks, err := l.read(ctx)
	if err != nil || !asks {
		return reconcile.Result{}, err
	}
	pods, err := l.pods(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !l.concerned(pods) {
		return reconcile.Result{}, nil
	}
	clusters, unknown, err := l.clusters(ctx, workloadsOf(pods))
	if err != nil {
		return reconcile.Result{}, err
	}
	for _, w := range unknown {
		l.unknown = append(l.unknown, w.owner)
		l.keep(w)
	}
	l.tellUnknown(unknown)
	switch err := l.act(ctx, clusters); {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: staleAgain}, nil // the cache has not seen it yet
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: l.again}, nil
}

func (l *look) act(ctx context.Context, clusters []cluster) error {
	for _, c := range clusters {
		if err := l.follow(ctx, c); err != nil {
			return err
		}
	}
	l.tellWithoutPods()
	return l.orphans(ctx)
}

// soon has the namespace looked at again, not later than that.
func (l *look) soon(after time.Duration) {
	if l.again == 0 || after < l.again {
		l.again = max(after, time.Second)
	}
}

// follow does what the annotations ask for a cluster.
func (l *look) follow(ctx context.Context, c cluster) error {
	existing, err := l.of(ctx, c)
	if err != nil {
		return err
	}
	for _, s := range existing {
		l.claimed[s.Name] = true
	}
	if c.backed() {
		l.tellBad(c, existing, l.passed(c))
	}
	w, asks := wishOf(c, l.annotations)
	if len(w.bad) == 0 {
		l.memory.mended(l.keys(c, existing)...)
	}
	switch {
	case !asks:
		l.tellBad(c, nil, w.bad)
		l.tellOnce(c, "", "")
		return l.drop(ctx, c, existing, "annotation "+api.AnnotationBackupSchedule+" has gone")
	case w.refused != nil:
		l.tellOnce(c, w.refused.reason, w.refused.text)
		return nil
	case len(w.bad) > 0:
		l.tellBad(c, existing, w.bad)
		return nil
	}
	pods, err := l.selected(ctx, c, existing)
	if err != nil {
		return err
	}
	if pods == nil {
		l.tellOnce(c, eventNoSelector, "its workloads are one cluster, and no label tells their pods from all others of the namespace; make a BackupSchedule that names the pods")
		return nil
	}
	if len(existing) == 0 {
		return l.make(ctx, c, pods, w)
	}
	if to, differs := changed(existing[0], pods, w); differs {
		if done, err := l.done(c, l.write.update(ctx, to, c)); !done {
			return err
		}
	}
	l.tellOnce(c, eventDisagree, w.disagree)
	return l.drop(ctx, c, existing[1:], "its pods are those of BackupSchedule "+existing[0].Name)
}

// make makes the BackupSchedule of a cluster that has none.
func (l *look) make(ctx context.Context, c cluster, pods *api.BackupPods, w wish) error {
	if l.waiting {
		return nil // a part of it may be among those that are not known
	}
	name, taken := l.free(c)
	l.claimed[name] = true
	if taken {
		l.tellOnce(c, eventTaken, fmt.Sprintf("there is a BackupSchedule %s that was not made of annotations: it is left alone, and no other is made; delete it, or take the annotation %s off", name, api.AnnotationBackupSchedule))
		return nil
	}
	if done, err := l.done(c, l.write.create(ctx, build(l.namespace, name, pods, w), c)); !done {
		return err
	}
	l.tellOnce(c, eventDisagree, w.disagree)
	return nil
}

func (l *look) drop(ctx context.Context, c cluster, all []*api.BackupSchedule, why string) error {
	for _, s := range all {
		if err := l.write.delete(ctx, s, c, why); err != nil {
			return err
		}
	}
	return nil
}

// of finds what was made for the pods of a cluster, by name: for one of its workloads, or
// for pods with labels. There is more than one where workloads have become one cluster.
func (l *look) of(ctx context.Context, c cluster) (found []*api.BackupSchedule, err error) {
	for i := range l.schedules {
		s := &l.schedules[i]
		if !isAnnotated(s) || s.DeletionTimestamp != nil || l.claimed[s.Name] {
			continue
		}
		pods := s.Spec.Template.Spec.Pods
		is := slices.ContainsFunc(c, func(w workload) bool { return samePods(pods, podsOf(w)) })
		if !is && pods != nil && pods.Selector != nil {
			if is, err = l.selects(ctx, pods.Selector, c); err != nil {
				return nil, err
			}
		}
		if is {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *api.BackupSchedule) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// selects tells whether labels are those of a pod of the cluster.
func (l *look) selects(ctx context.Context, by *metav1.LabelSelector, c cluster) (bool, error) {
	all, err := l.everyPod(ctx)
	if err != nil {
		return false, err
	}
	some, _ := covers(by, c, l.unknown, all)
	return some, nil
}

// free is a name for the BackupSchedule of a cluster. Where that of an other cluster is
// called so, it ends in a hash; taken says that somebody else's is.
func (l *look) free(c cluster) (name string, taken bool) {
	for _, apart := range []string{"", c[0].owner.Kind} {
		name = nameOf(c.name(), apart)
		other := l.named(name)
		if l.claimed[name] || other != nil && isAnnotated(other) && other.DeletionTimestamp == nil {
			continue
		}
		return name, other != nil && !isAnnotated(other)
	}
	return name, true
}

func (l *look) named(name string) *api.BackupSchedule {
	for i := range l.schedules {
		if l.schedules[i].Name == name {
			return &l.schedules[i]
		}
	}
	return nil
}

// keep leaves what there is for workloads of which it is not known whose cluster they are.
func (l *look) keep(w workload) {
	for i := range l.schedules {
		s := &l.schedules[i]
		if isAnnotated(s) && (samePods(s.Spec.Template.Spec.Pods, podsOf(w)) || s.Spec.Template.Spec.Pods != nil && s.Spec.Template.Spec.Pods.Selector != nil) {
			l.kept[s.Name] = true
		}
	}
}

// selected says which pods are backed up; nil where that cannot be said. Labels that do
// stay, whatever others would: a workload of which no pod is there for the moment is not
// to be left out of a backup.
func (l *look) selected(ctx context.Context, c cluster, existing []*api.BackupSchedule) (*api.BackupPods, error) {
	var now *api.BackupPods
	if len(existing) > 0 {
		now = existing[0].Spec.Template.Spec.Pods
	}
	if len(c) > 1 && c[0].kind == wl.KindAnna {
		// A Backup of one of its workloads is one of the whole cluster.
		if now != nil && slices.ContainsFunc(c, func(w workload) bool { return samePods(now, podsOf(w)) }) {
			return now, nil
		}
		return podsOf(c[0]), nil
	}
	bySelector := now != nil && now.Selector != nil
	if len(c) == 1 && !bySelector {
		return podsOf(c[0]), nil
	}
	all, err := l.everyPod(ctx)
	if err != nil {
		return nil, err
	}
	if bySelector {
		if _, exactly := covers(now.Selector, c, l.unknown, all); exactly {
			return now, nil
		}
	}
	if len(c) == 1 {
		return podsOf(c[0]), nil
	}
	if selector := selectorOf(c, l.unknown, all); selector != nil {
		return &api.BackupPods{Selector: selector}, nil
	}
	return nil, nil
}

// namespaceOf reads what is known of the namespace, which is nothing where it has gone.
func namespaceOf(ctx context.Context, from client.Reader, name string) (*metav1.PartialObjectMetadata, error) {
	object := namespaceMeta()
	if err := from.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return object, nil
}
