package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/lookup"
)

type silence struct{}

func (silence) tell(corev1.ObjectReference, *corev1.ObjectReference, string, string, string) {}

// sidecars answer as they are told to.
type sidecars struct {
	mu      sync.Mutex
	reports map[string]node.Report
	storage map[string]error // of those that look into it, by pod
	asked   []string
	backup  *node.Backup
}

func (s *sidecars) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, what)
}

func (s *sidecars) Report(_ context.Context, pod *corev1.Pod) (node.Report, error) {
	report, ok := s.reports[pod.Name]
	if !ok {
		return report, errors.New("no answer")
	}
	return report, nil
}

func (s *sidecars) Backups(_ context.Context, pod *corev1.Pod, prefix string) (node.Backups, error) {
	s.note("list " + pod.Name + " " + prefix)
	return node.Backups{Backups: []node.Summary{s.backup.Summary}}, s.storage[pod.Name]
}

func (s *sidecars) Backup(_ context.Context, pod *corev1.Pod, prefix, name string) (node.Backup, error) {
	s.note("look " + pod.Name + " " + prefix + " " + name)
	return *s.backup, s.storage[pod.Name]
}

// lookups are pods that look into the storage.
type lookups struct {
	err     error
	made    int
	removed int
}

func (l *lookups) Pod(context.Context, *corev1.Pod, *api.Restore) (*corev1.Pod, error) {
	l.made++
	if l.err != nil {
		return nil, l.err
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "looks"}}, nil
}
func (l *lookups) Remove(context.Context, *api.Restore) error { l.removed++; return nil }

func reconcilerOn(c cluster, nodes Nodes, l Lookuper) *reconciler {
	return &reconciler{cluster: c, nodes: nodes, lookups: l, planner: realPlanner, tell: silence{}, clock: func() time.Time { return today }, log: logr.Discard(),
		index: newIndex(), throttle: newThrottle(), checking: make(chan struct{}, checkers)}
}

func labelledNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
}

// TestNoTwoAtOnce has Restores for the same pod begin at the same instant, and asks for
// no more than one to have it pending at any time.
func TestNoTwoAtOnce(t *testing.T) {
	const many = 8
	objects := []client.Object{labelledNamespace(), factPod("cas-0"), factPod("cas-1")}
	for i := range many {
		name := fmt.Sprintf("r%d", i)
		restore := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(today), Finalizers: []string{Finalizer}},
			Spec: api.RestoreSpec{Backup: "nightly", Mode: api.InPlace, Pods: api.RestorePods{Names: []string{"cas-0", "cas-1"}[i%2:]}}}
		if i > 1 { // two begin from nothing
			restore.Status = accept(restore, &verdict{names: restore.Spec.Pods.Names}, today).status
		}
		objects = append(objects, restore)
	}
	l, c := liveOn(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		err := c.List(ctx, list, options...)
		time.Sleep(5 * time.Millisecond) // the others may write meanwhile
		return err
	}}, objects...)
	nodes := &sidecars{backup: factBackup("nightly", "cas-0", "cas-1"), reports: map[string]node.Report{"cas-0": {Node: "cas-0", Size: 100 << 30, Free: 50 << 30}, "cas-1": {Node: "cas-1", Size: 100 << 30, Free: 50 << 30}}}
	r := reconcilerOn(l, nodes, nil)
	r.planner.accept = func(f Facts) ([]string, *Problem) { return f.Restore.Spec.Pods.Names, nil } // knows nothing of others
	var group sync.WaitGroup
	for i := range many {
		group.Go(func() {
			for range 6 {
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("r%d", i)}}); err != nil {
					t.Error(err)
				}
				r.throttle.mu.Lock()
				clear(r.throttle.checks)
				r.throttle.mu.Unlock()
			}
		})
	}
	group.Wait()
	var list api.RestoreList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	holders := map[string][]string{}
	for _, r := range list.Items {
		for _, pod := range r.Status.Pending {
			holders[pod] = append(holders[pod], r.Name)
		}
		if len(r.Status.Pending) == 0 && r.Status.Phase != api.RestoreWaiting {
			t.Errorf("%s is %s: %s", r.Name, r.Status.Phase, r.Status.Message)
		}
	}
	if len(holders["cas-1"]) != 1 || len(holders["cas-0"]) > 1 {
		t.Errorf("pending are %v", holders)
	}
}

// prechecked runs the prechecks of a Restore of cas-0 and cas-1.
func prechecked(t *testing.T, nodes *sidecars, l Lookuper, change func(*api.Restore)) (*verdict, *reconciler) {
	t.Helper()
	restore := fresh(func(r *api.Restore) { r.Spec.Pods.Names = []string{"cas-0", "cas-1"} })
	restore.Status = accept(restore, &verdict{names: restore.Spec.Pods.Names}, today).status
	if change != nil {
		change(restore)
	}
	if nodes.backup == nil {
		nodes.backup = factBackup("nightly", "cas-0", "cas-1")
	}
	c, _ := liveOn(t, interceptor.Funcs{}, labelledNamespace(), restore, factPod("cas-0", unready), factPod("cas-1", unready))
	r := reconcilerOn(c, nodes, l)
	v, err := r.precheck(t.Context(), restore)
	if err != nil {
		t.Fatal(err)
	}
	return v, r
}

func roomy(names ...string) map[string]node.Report {
	reports := map[string]node.Report{}
	for _, name := range names {
		reports[name] = node.Report{Node: name, Size: 100 << 30, Free: 50 << 30}
	}
	return reports
}

func TestPrecheck(t *testing.T) {
	id := fresh(func(r *api.Restore) { r.Spec.Pods.Names = []string{"cas-0", "cas-1"} }).RequestID()
	doneOn := func(reports map[string]node.Report, names ...string) map[string]node.Report {
		for _, name := range names {
			report := reports[name]
			report.Done = []node.Done{{ID: "other/1"}, {ID: id, Bytes: 3}}
			reports[name] = report
		}
		return reports
	}
	starting := fmt.Errorf("%w: its image is pulled", lookup.ErrStarting)
	down := errors.New("down")
	for _, c := range []struct {
		name    string
		nodes   *sidecars
		lookups *lookups
		change  func(*api.Restore)
		reason  string // of the problem
		looking bool
		asked   string
		planned string
	}{
		{"the first answers", &sidecars{reports: roomy("cas-0", "cas-1")}, &lookups{}, nil, "", false, "list cas-0 , look cas-0  nightly", "cas-0 cas-1"},
		{"the second answers", &sidecars{reports: roomy("cas-1")}, &lookups{}, nil, "", false, "list cas-1 , look cas-1  nightly", "cas-0 cas-1"},
		{"the first cannot look", &sidecars{reports: roomy("cas-0", "cas-1"), storage: map[string]error{"cas-0": down}}, &lookups{}, nil, "", false, "list cas-0 , list cas-1 , look cas-1  nightly", "cas-0 cas-1"},
		{"of another prefix", &sidecars{reports: roomy("cas-0")}, &lookups{}, func(r *api.Restore) { r.Spec.Source = &api.RestoreSource{Prefix: new("p")} }, "", false, "list cas-0 p, look cas-0 p nightly", "cas-0 cas-1"},
		{"of no prefix", &sidecars{reports: roomy("cas-0")}, &lookups{}, func(r *api.Restore) { r.Spec.Source = &api.RestoreSource{Prefix: new("")} }, "", false, "list cas-0 ., look cas-0 . nightly", "cas-0 cas-1"},
		{"none answers, nothing to look by", &sidecars{}, nil, nil, ReasonLookingUp, false, "", ""},
		{"none answers, a pod starts", &sidecars{}, &lookups{err: starting}, nil, ReasonLookingUp, true, "", ""},
		{"none answers, none can be made", &sidecars{}, &lookups{err: lookup.ErrNotLike}, nil, ReasonLookingUp, false, "", ""},
		{"none answers, a pod looks", &sidecars{}, &lookups{}, nil, "", false, "list looks , look looks  nightly", "cas-0 cas-1"},
		{"none answers, a pod cannot look", &sidecars{storage: map[string]error{"looks": down}}, &lookups{}, nil, ReasonStorage, false, "list looks ", ""},
		{"there is no such backup", &sidecars{reports: roomy("cas-0")}, &lookups{}, func(r *api.Restore) { r.Spec.Backup = "nightli" }, "NoSuchBackup", false, "list cas-0 ", ""},
		{"all done before", &sidecars{reports: doneOn(roomy("cas-0", "cas-1"), "cas-0", "cas-1")}, &lookups{}, nil, "", false, "", "cas-0 cas-1"},
		{"one done before", &sidecars{reports: doneOn(roomy("cas-0", "cas-1"), "cas-0")}, &lookups{}, nil, "", false, "list cas-0 , look cas-0  nightly", "cas-0 cas-1"},
		{"a pod is gone", &sidecars{reports: roomy("cas-0")}, &lookups{}, func(r *api.Restore) {
			r.Status.Pods = append(r.Status.Pods, api.PodRestore{Name: "cas-2"})
		}, ReasonPodNotFound, false, "", ""},
	} {
		var l Lookuper
		if c.lookups != nil {
			l = c.lookups
		}
		v, _ := prechecked(t, c.nodes, l, c.change)
		if !problemIs(v.problem, c.reason) || v.looking != c.looking || strings.Join(c.nodes.asked, ", ") != c.asked {
			t.Errorf("%s: %+v, looking %v, asked %q", c.name, v.problem, v.looking, strings.Join(c.nodes.asked, ", "))
		}
		var planned []string
		for _, at := range v.pods {
			planned = append(planned, at.Name)
		}
		if strings.Join(planned, " ") != c.planned {
			t.Errorf("%s: planned are %v", c.name, v.pods)
		}
	}
}

// TestLookupIsRemoved in every outcome, and kept while it is waited for.
func TestLookupIsRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*api.Restore)
		v      *verdict
		want   int
	}{
		"planned":    {nil, &verdict{pods: []api.PodRestore{{Name: "a"}}}, 1},
		"refused":    {nil, &verdict{problem: &Problem{Reason: "NoSuchBackup"}}, 1},
		"waits":      {nil, &verdict{problem: &Problem{Reason: "Busy", Wait: true}}, 0},
		"looks":      {nil, &verdict{looking: true, problem: &Problem{Reason: "LookingUp", Wait: true}}, 0},
		"a dry run":  {dry, &verdict{pods: []api.PodRestore{{Name: "a"}}}, 1},
		"too late":   {late, &verdict{}, 1},
		"cancelled":  {func(r *api.Restore) { r.Spec.Cancel = true }, nil, 1},
		"deleted":    {func(r *api.Restore) { r.DeletionTimestamp = new(metav1.NewTime(today)) }, nil, 1},
		"was failed": {func(r *api.Restore) { r.Status.Phase = api.RestoreFailed }, nil, 1},
	} {
		restore := accepted()
		if c.change != nil {
			c.change(restore)
		}
		l, _ := liveOn(t, interceptor.Funcs{}, restore)
		read, err := l.restore(t.Context(), nameOf(restore))
		if err != nil {
			t.Fatal(err)
		}
		looks := &lookups{}
		r := reconcilerOn(l, &sidecars{}, looks)
		if _, err := r.do(t.Context(), read, next(read, world{verdict: c.v}, today)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if looks.removed != c.want {
			t.Errorf("%s: removed %d times", name, looks.removed)
		}
	}
}

// TestConflict: somebody who writes the object in between is no error, and nothing is
// done that the status does not say.
func TestConflict(t *testing.T) {
	restore := begun(phaseOf("a", api.PodPlanned))
	deleted := 0
	funcs := interceptor.Funcs{
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return apierrors.NewConflict(api.GroupVersion.WithResource("restores").GroupResource(), "r", errors.New("changed"))
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			deleted++
			return nil
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return fmt.Errorf("ValidatingAdmissionPolicy '%s' denied request: pod x "+refusal, policyName, restore.Name) // the probe
		},
	}
	l, _ := liveOn(t, funcs, restore, coursePod("a"), coursePod("b"), coursePod("c"))
	r := reconcilerOn(l, &sidecars{}, nil)
	result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: nameOf(restore)})
	if err != nil || result.RequeueAfter == 0 || deleted > 0 {
		t.Errorf("%+v, %v, %d pods deleted", result, err, deleted)
	}
}

func TestThrottle(t *testing.T) {
	tr, r := newThrottle(), fresh()
	if tr.wait(r, today) != 0 {
		t.Error("it waits though nothing was agreed")
	}
	tr.set(r, 10*time.Second, today)
	if got := tr.wait(r, today.Add(4*time.Second)); got != 6*time.Second {
		t.Errorf("it waits %s", got)
	}
	if tr.wait(r, today.Add(11*time.Second)) > 0 {
		t.Error("it waits too long")
	}
	changed := r.DeepCopy()
	changed.Generation++
	if tr.wait(changed, today) != 0 {
		t.Error("a change of the spec waits")
	}
	if tr.wait(begun(), today) != 0 {
		t.Error("one that has begun waits")
	}
	tr.forget(nameOf(r))
	if len(tr.checks)+len(tr.write) > 0 || tr.wait(r, today) != 0 {
		t.Error("it is not forgotten")
	}
	if !tr.due("r", today) {
		t.Error("the first figures are not written")
	}
	tr.written("r", today)
	if tr.due("r", today.Add(progressEvery-1)) || !tr.due("r", today.Add(progressEvery)) {
		t.Error("figures are written at the wrong times")
	}
}

func TestIndex(t *testing.T) {
	x, one, two := newIndex(), types.NamespacedName{Namespace: "ns", Name: "one"}, types.NamespacedName{Namespace: "ns", Name: "two"}
	x.set(one, []string{"a", "b"})
	x.set(two, []string{"b"})
	found := func(pod string) (names []string) {
		for _, r := range x.find(types.NamespacedName{Namespace: "ns", Name: pod}) {
			names = append(names, r.Name)
		}
		slices.Sort(names)
		return names
	}
	if !slices.Equal(found("a"), []string{"one"}) || !slices.Equal(found("b"), []string{"one", "two"}) || found("c") != nil {
		t.Errorf("found %v %v %v", found("a"), found("b"), found("c"))
	}
	x.set(one, []string{"c"})
	x.forget(two)
	if found("a") != nil || found("b") != nil || !slices.Equal(found("c"), []string{"one"}) || len(x.pods) != 1 {
		t.Errorf("found %v %v %v", found("a"), found("b"), found("c"))
	}
}
