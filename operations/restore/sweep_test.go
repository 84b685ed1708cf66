package restore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/heal"
)

// heard keeps the reasons of events.
type heard struct{ reasons []string }

func (h *heard) tell(about corev1.ObjectReference, _ *corev1.ObjectReference, _, reason, _ string) {
	h.reasons = append(h.reasons, about.Kind+" "+reason)
}

func sweeperOn(t *testing.T, now *time.Time, objects ...client.Object) (*sweeper, client.Client, *heard) {
	t.Helper()
	l, c := liveOn(t, interceptor.Funcs{}, objects...)
	h := &heard{}
	return &sweeper{cluster: l, candidates: cachedCandidates(c), tell: h, clock: func() time.Time { return *now }, log: logr.Discard()}, c, h
}

func TestSweep(t *testing.T) {
	gatedPod := func() *corev1.Pod { return coursePod("a", with("r/1"), withGate) }
	runningPod := func() *corev1.Pod { return coursePod("a", restores("r/1", runs, 0, nil)) }
	status := func(phase api.RestorePhase, at api.PodPhase, pending ...string) func(*api.Restore) {
		return func(r *api.Restore) {
			r.Status.Phase, r.Status.Pending, r.Status.Pods[0].Phase = phase, pending, at
		}
	}
	for _, c := range []struct {
		name    string
		pod     *corev1.Pod
		restore *api.Restore
		at      time.Duration // since it was seen first
		want    string        // what becomes of the pod
	}{
		{"it is waited for", gatedPod(), begun(), time.Hour, "kept"},
		{"it is late, and waited for", gatedPod(), begun(status(api.RestoreFailed, api.PodWaiting, "a")), time.Hour, "kept"},
		{"there is no Restore", gatedPod(), nil, 0, "deleted"},
		{"there is another of the name", gatedPod(), begun(func(r *api.Restore) { r.Status.ID = "r/2" }), 0, "deleted"},
		{"it is applied again, and looked at", gatedPod(), begun(func(r *api.Restore) { r.Status = api.RestoreStatus{ID: "r/1", Phase: api.RestoreChecking} }), time.Hour, "kept"},
		{"it is applied again, and was not seen yet", coursePod("a", with(begun().RequestID()), withGate), begun(func(r *api.Restore) { r.Status = api.RestoreStatus{} }), time.Hour, "kept"},
		{"it is applied again, and refused", gatedPod(), begun(func(r *api.Restore) { r.Status = api.RestoreStatus{ID: "r/1", Phase: api.RestoreFailed} }), 0, "deleted"},
		{"it is cancelled", gatedPod(), begun(status(api.RestoreCancelled, api.PodWaiting)), 0, "deleted"},
		{"it is being cancelled", gatedPod(), begun(status(api.RestoreRestoring, api.PodWaiting), func(r *api.Restore) { r.Spec.Cancel = true }), time.Hour, "kept"},
		{"it is cancelled, and runs", runningPod(), begun(status(api.RestoreCancelled, api.PodWaiting)), 0, "deleted"},
		{"it was restored before", gatedPod(), begun(status(api.RestoreCompleted, api.PodRestored)), 0, "lifted"},
		{"it was restored before the others", gatedPod(), begun(status(api.RestoreRestoring, api.PodRestored, "b")), 0, "lifted"},
		{"it was restored before, and runs again", runningPod(), begun(status(api.RestoreCompleted, api.PodRestored)), time.Hour, "kept"},
		{"it runs without a Restore, for a moment", runningPod(), nil, time.Minute, "kept"},
		{"it runs without a Restore", runningPod(), nil, 6 * time.Minute, "deleted"},
		{"it has ended without a Restore", coursePod("a", ended(0, outcome)), nil, time.Hour, "kept"},
		{"its template restores", coursePod("a", with("")), nil, time.Hour, "kept"},
		{"it is somebody's", coursePod("a"), nil, time.Hour, "kept"},
	} {
		now := today
		objects := []client.Object{c.pod}
		if c.restore != nil {
			objects = append(objects, c.restore)
		}
		s, cl, h := sweeperOn(t, &now, objects...)
		for _, at := range []time.Duration{0, c.at} {
			now = today.Add(at)
			if err := s.sweep(t.Context()); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		var after corev1.Pod
		got := "kept"
		if err := cl.Get(t.Context(), client.ObjectKeyFromObject(c.pod), &after); err != nil {
			got = "deleted"
		} else if hasGate(c.pod) && !hasGate(&after) {
			got = "lifted"
		}
		if got != c.want {
			t.Errorf("%s: it is %s", c.name, got)
		}
		if told := strings.Join(h.reasons, " "); (told != "") != (got == "deleted") || got == "deleted" && !strings.HasPrefix(told, "Pod "+eventOrphan) {
			t.Errorf("%s: told is %q", c.name, told)
		}
	}
}

// TestSweepSlowsDown on a pod that comes back with the container again and again.
func TestSweepSlowsDown(t *testing.T) {
	now := today
	s, c, h := sweeperOn(t, &now)
	deleted := 0
	for i := range 10 {
		pod := coursePod("a", with("r/1"), withGate, func(p *corev1.Pod) { p.UID = types.UID(rune('a' + i)) })
		_ = c.Create(t.Context(), pod)
		if err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{}); err != nil {
			deleted++
		}
		now = now.Add(time.Minute)
	}
	if deleted != sweepLimit || len(h.reasons) != sweepLimit {
		t.Errorf("it was deleted %d times, told %d times", deleted, len(h.reasons))
	}
}

// TestSlimPods: what the manager's cache keeps of a pod is enough to find it.
func TestSlimPods(t *testing.T) {
	var slim func(any) (any, error)
	for object, by := range heal.ByObject() {
		if _, ok := object.(*corev1.Pod); ok {
			slim = by.Transform
		}
	}
	labelled := func(pod *corev1.Pod) { pod.Labels = map[string]string{api.LabelInjected: "cassandra"} }
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"gated":              {coursePod("a", with("r/1"), withGate, labelled), true},
		"running":            {coursePod("a", restores("r/1", runs, 0, nil), labelled), true},
		"failing, scheduled": {coursePod("a", ended(1, "no"), labelled, func(p *corev1.Pod) { p.Spec.NodeName = "n" }), true},
		"restored":           {coursePod("a", ended(0, outcome), labelled), false},
		"ready":              {coursePod("a", ended(0, outcome), labelled, isReady), false},
		"of others":          {coursePod("a", labelled), false},
	} {
		kept, err := slim(c.pod)
		if err != nil {
			t.Fatal(err)
		}
		pod := kept.(*corev1.Pod)
		pod.ResourceVersion = ""
		_, reader := liveOn(t, interceptor.Funcs{}, pod)
		names, err := cachedCandidates(reader)(context.Background())
		if err != nil || (len(names) == 1) != c.want {
			t.Errorf("%s: found are %v, %v", name, names, err)
		}
	}
}

func TestMeasure(t *testing.T) {
	started := func(ago time.Duration, phase api.RestorePhase, pending ...string) api.Restore {
		return api.Restore{Status: api.RestoreStatus{Phase: phase, Started: new(metav1.NewTime(today.Add(-ago))), Pending: pending}}
	}
	measure([]api.Restore{started(time.Hour, api.RestoreCompleted), started(time.Minute, api.RestoreRestoring, "a", "b"), started(2*time.Minute, api.RestoreFailed, "c"), {}}, today)
	for phase, want := range map[api.RestorePhase]float64{api.RestoreCompleted: 1, api.RestoreRestoring: 1, api.RestoreFailed: 1, api.RestoreWaiting: 1, api.RestorePlanned: 0} {
		if got := value(t, byPhase.WithLabelValues(string(phase))); got != want {
			t.Errorf("%s: %v", phase, got)
		}
	}
	if value(t, pendingPods) != 3 || value(t, oldestActive) != 120 {
		t.Errorf("pending %v, oldest %v", value(t, pendingPods), value(t, oldestActive))
	}
}

// TestSweepSpares: a pod that is past its init containers waits for nothing; and what
// cannot be done to one pod keeps nothing from the others.
func TestSweepSpares(t *testing.T) {
	now := today
	past := coursePod("a", restores("r/1", waiting, 0, nil), func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}
	})
	s, c, _ := sweeperOn(t, &now, past)
	for range 3 {
		if err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(past), &corev1.Pod{}); err != nil {
		t.Errorf("a database that runs: %v", err)
	}

	l, c := liveOn(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
		if object.GetName() == "a" {
			return apierrors.NewForbidden(corev1.Resource("pods"), "a", errors.New("a policy"))
		}
		return c.Delete(ctx, object, options...)
	}}, coursePod("a", with("r/1"), withGate), coursePod("b", with("r/1"), withGate))
	s.cluster, s.candidates = l, cachedCandidates(c)
	if err := s.sweep(t.Context()); err == nil {
		t.Error("nothing is said of the pod that could not be deleted")
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(coursePod("b")), &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("the other: %v", err)
	}
}

// TestSweepsOn: a webhook whose informer lags for long gives pods a gate that nobody
// else lifts. They are not given up.
func TestSweepsOn(t *testing.T) {
	now := today
	s, c, _ := sweeperOn(t, &now, coursePod("a", with("r/1"), withGate))
	deleted := 0
	for i := range 60 {
		now = now.Add(sweepEvery)
		if err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		pod := coursePod("a", with("r/1"), withGate)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{}); apierrors.IsNotFound(err) {
			deleted++
			pod.UID, pod.ResourceVersion = "", ""
			if err := c.Create(t.Context(), pod); err != nil {
				t.Fatal(i, err)
			}
		}
	}
	if deleted < sweepLimit+2 || deleted > sweepLimit+8 {
		t.Errorf("in an hour it was deleted %d times", deleted)
	}
}
