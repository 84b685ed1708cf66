package restore

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// stored is a status as the API server gives it back.
func stored(t *testing.T, s api.RestoreStatus) (back api.RestoreStatus) {
	t.Helper()
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// TestIDIsOfWhatIsAccepted changes what is asked for while the Restore waits: with the
// id of what was asked before, volumes would remember the wrong request.
func TestIDIsOfWhatIsAccepted(t *testing.T) {
	r := fresh()
	r.Status = accept(r, &verdict{problem: &Problem{Reason: ReasonBusy, Wait: true}}, today).status
	r.Spec.Backup = "weekly"
	r.Status = accept(r, &verdict{names: r.Spec.Pods.Names}, today).status
	if r.Status.ID != r.RequestID() {
		t.Errorf("it is accepted as %s, and is %s", r.Status.ID, r.RequestID())
	}
}

// TestSuspendedWaitsForever has one that is suspended from the beginning for longer
// than its deadline, and resumed then.
func TestSuspendedWaitsForever(t *testing.T) {
	r := fresh(suspended)
	day := today
	for range 3 {
		if r.Status = stored(t, accept(r, nil, day).status); r.Status.Phase != api.RestoreWaiting {
			t.Fatalf("suspended until %s it is %s: %s", day, r.Status.Phase, r.Status.Message)
		}
		day = day.Add(24 * time.Hour)
	}
	r.Spec.Suspend = false
	busy := &verdict{problem: &Problem{Reason: ReasonBusy, Wait: true}}
	if r.Status = stored(t, accept(r, busy, day).status); r.Status.Phase != api.RestoreWaiting {
		t.Fatalf("resumed it is %s: %s", r.Status.Phase, r.Status.Message)
	}
	if s := accept(r, busy, day.Add(r.Spec.Deadline.Duration+time.Second)); s.status.Phase != api.RestoreFailed {
		t.Errorf("an hour after it was resumed it is %s", s.status.Phase)
	}
}

// TestProbeThatFails: somebody else's webhook that is down keeps the probe from being
// answered. What has nothing to do with that goes on.
func TestProbeThatFails(t *testing.T) {
	restore := begun(func(r *api.Restore) { r.Status.Started = new(metav1.NewTime(today.Add(-2 * time.Hour))) })
	deleted := 0
	l, c := liveOn(t, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewInternalError(errors.New(`failed calling webhook "mesh.example.com"`))
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			deleted++
			return nil
		},
	}, labelledNamespace(), restore, coursePod("a"), coursePod("b"), coursePod("c"))
	if _, err := reconcilerOn(l, &sidecars{}, nil).Reconcile(t.Context(), reconcile.Request{NamespacedName: nameOf(restore)}); err != nil {
		t.Error(err)
	}
	after := &api.Restore{}
	if err := c.Get(t.Context(), nameOf(restore), after); err != nil {
		t.Fatal(err)
	}
	if after.Status.Phase != api.RestoreFailed || !strings.Contains(after.Status.Message, "mesh.example.com") || deleted > 0 {
		t.Errorf("it is %s: %s; %d pods deleted", after.Status.Phase, after.Status.Message, deleted)
	}
}

// TestJoiningIsQuiet: a pod that has yet to join is looked at for hours.
func TestJoiningIsQuiet(t *testing.T) {
	done := node.Done{ID: "r/1", Bytes: 90, Started: today.Add(-time.Minute + 123), Finished: today.Add(-time.Second + 456789)}
	r := begun(func(r *api.Restore) { r.Spec.Mode = api.Remote })
	w := world{pods: map[string]*corev1.Pod{}}
	for _, name := range []string{"a", "b", "c"} {
		w.pods[name] = coursePod(name, ended(0, node.Outcome("restored", done)))
	}
	for i := range 3 {
		s := run(r, w, today)
		if changed := s.changes(r); changed != (i == 0) {
			t.Errorf("look %d changes the status: %v", i, changed)
		}
		r.Status = stored(t, s.status)
	}
}

// TestClockBehind: a pod that seems to have been made since, by a clock that is behind
// the API server's, and that nobody has stopped, is not taken for one that escaped.
func TestClockBehind(t *testing.T) {
	r := begun(phaseOf("a", api.PodPlanned), phaseOf("b", api.PodPlanned), phaseOf("c", api.PodPlanned))
	w := world{pods: map[string]*corev1.Pod{"a": coursePod("a", young), "b": coursePod("b", young), "c": coursePod("c", young)}}
	if does := goals(run(r, w, today)); does != nil {
		t.Errorf("before the API server knows of the list it does %v", does)
	}
	w.probe.refused = true
	if does := strings.Join(goals(run(r, w, today)), ", "); does != "delete a RestoreStopping, delete b RestoreStopping, delete c RestoreStopping" {
		t.Errorf("it does %s", does)
	}
}

// TestCancelledTooLate: a container that ended after the cancellation was written has
// restored its volume, and nobody is told that the data are half replaced.
func TestCancelledTooLate(t *testing.T) {
	r := begun(func(r *api.Restore) { r.Spec.Cancel = true }, phaseOf("a", api.PodRestoring))
	w := world{pods: map[string]*corev1.Pod{"a": coursePod("a", restores("r/1", runs, 0, nil))}}
	r.Status = stored(t, cancel(r, w, today).status)
	if at := r.Status.Pod("a"); !strings.Contains(at.Message, "DANGER") {
		t.Fatalf("while it runs: %q", at.Message)
	}
	w.pods["a"] = coursePod("a", ended(0, outcome))
	s := cancel(r, w, today)
	if at := s.status.Pod("a"); at.Phase != api.PodRestored || !at.Previous || strings.Contains(at.Message, "DANGER") || len(s.remove) > 0 {
		t.Errorf("it is %+v, and %v", at, goals(s))
	}
}

// TestLabelTakenOff: without its namespace's label a pod comes back bare each time, and
// may not be deleted by us. It is said, once, and not tried for ever.
func TestLabelTakenOff(t *testing.T) {
	restore := begun(phaseOf("a", api.PodWaiting))
	deleted := 0
	forbid := interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
		deleted++
		return apierrors.NewForbidden(corev1.Resource("pods"), "a", errors.New("a policy"))
	}}
	namespace := labelledNamespace()
	namespace.Labels = nil
	l, c := liveOn(t, forbid, namespace, restore, coursePod("a", young))
	r, h := reconcilerOn(l, &sidecars{}, nil), &heard{}
	r.tell = h
	for range 3 {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: nameOf(restore)}); err != nil {
			t.Fatal(err)
		}
	}
	after := &api.Restore{}
	if err := c.Get(t.Context(), nameOf(restore), after); err != nil {
		t.Fatal(err)
	}
	told := strings.Count(strings.Join(h.reasons, " "), eventMissing)
	if deleted > 0 || told != 1 || !strings.Contains(after.Status.Message, "namespace ns") || len(after.Status.Pending) != 3 {
		t.Errorf("deleted %d times, told %d times, pending %v: %s", deleted, told, after.Status.Pending, after.Status.Message)
	}
	namespace = labelledNamespace()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace); err != nil {
		t.Fatal(err)
	}
	namespace.Labels = labelledNamespace().Labels
	if err := c.Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: nameOf(restore)}); err == nil || deleted != 1 {
		t.Errorf("labelled again: %v, deleted %d times", err, deleted)
	}
}

// TestManyPodsAreListedSeldom: each change of each pod is a reason to look at all.
func TestManyPodsAreListedSeldom(t *testing.T) {
	restore := begun(func(r *api.Restore) {
		for _, name := range []string{"d", "e", "f"} {
			r.Status.Pods = append(r.Status.Pods, api.PodRestore{Name: name, Phase: api.PodStopping})
			r.Status.Pending = append(r.Status.Pending, name)
		}
	})
	lists, now := 0, today
	l, _ := liveOn(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		lists++
		return c.List(ctx, list, options...)
	}}, restore, labelledNamespace())
	r := reconcilerOn(l, &sidecars{}, nil)
	r.clock = func() time.Time { return now }
	for range 100 { // ten seconds
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: nameOf(restore)})
		if err != nil || result.RequeueAfter == 0 {
			t.Fatal(result, err)
		}
		now = now.Add(100 * time.Millisecond)
	}
	if lists < 8 || lists > 12 {
		t.Errorf("in ten seconds all pods are listed %d times", lists)
	}
}

// TestNoSuchKind: where the kind is not served, as after its definition was deleted, or
// by an API server that starts, nothing is known of what pods wait for.
func TestNoSuchKind(t *testing.T) {
	l, c := liveOn(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, is := object.(*api.Restore); is {
			return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", api.GroupVersion.WithResource("restores").GroupResource(), key.Name, "404 page not found", 0, true)
		}
		return c.Get(ctx, key, object, options...)
	}}, coursePod("a", with("r/1"), withGate))
	now := today
	s, _, _ := sweeperOn(t, &now)
	s.cluster, s.candidates = l, cachedCandidates(c)
	if err := s.sweep(t.Context()); err == nil {
		t.Error("nothing is said")
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(coursePod("a")), &corev1.Pod{}); err != nil {
		t.Errorf("the pod that waits: %v", err)
	}
}
