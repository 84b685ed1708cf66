package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
