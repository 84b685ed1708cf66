package heal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// world is a podReconciler in a cluster of its own.
type world struct {
	*podReconciler
	client client.Client
	events *events.FakeRecorder
	now    time.Time
	fail   error // of the next patch
}

func worldOf(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{events: events.NewFakeRecorder(100), now: start}
	b := fake.NewClientBuilder().WithStatusSubresource(&corev1.Pod{}).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := w.fail; err != nil {
				w.fail = nil
				return err
			}
			return c.Patch(ctx, object, patch, opts...)
		},
	})
	for _, kind := range []string{"involvedObject.uid", "reason"} {
		b.WithIndex(&corev1.Event{}, kind, func(object client.Object) []string {
			e := object.(*corev1.Event)
			return map[string][]string{"involvedObject.uid": {string(e.InvolvedObject.UID)}, "reason": {e.Reason}}[kind]
		})
	}
	w.client = b.WithObjects(objects...).Build()
	clock := func() time.Time { return w.now }
	w.podReconciler = &podReconciler{cached: w.client, live: w.client, pods: &pods{client: w.client, now: clock}, tell: teller{w.events}, now: clock,
		store:  &store{reader: w.client, writer: w.client, namespace: "stategraft", now: clock, log: logr.Discard()},
		survey: &survey{reader: w.client, now: clock}, after: deadline, log: logr.Discard()}
	return w
}

// step reconciles the pod at a time after start.
func (w *world) step(t *testing.T, pod *corev1.Pod, now time.Duration) reconcile.Result {
	t.Helper()
	w.now = start.Add(now)
	result, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// pod is the pod as it is now; nil where it is gone.
func (w *world) pod(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	var now corev1.Pod
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(pod), &now); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		t.Fatal(err)
	}
	return &now
}

// told are the reasons of the events since the last call.
func (w *world) told() string {
	var reasons []string
	for len(w.events.Events) > 0 {
		reasons = append(reasons, strings.Fields(<-w.events.Events)[1])
	}
	return strings.Join(reasons, " ")
}

func (w *world) held(t *testing.T, pod *corev1.Pod) (api.HeldBack, bool) {
	t.Helper()
	owner, _ := ownerOf(pod)
	held, ok, err := w.store.find(t.Context(), pod.Namespace, owner.Kind, owner.Name)
	if err != nil {
		t.Fatal(err)
	}
	return held, ok
}

// failing is a Cassandra pod of which something fails, and its namespace.
func failing(t *testing.T, changes ...change) (*corev1.Pod, *corev1.Namespace) {
	t.Helper()
	pod := admitted(t, cassandra, nil)
	apply(t, pod, changes...)
	pod.ResourceVersion = ""
	return pod, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}
}

func TestReconcileHeals(t *testing.T) {
	pod, ns := failing(t, waiting(medusa, "ErrImagePull"))
	w := worldOf(t, pod, ns)
	if result := w.step(t, pod, time.Minute); result.RequeueAfter != deadline || w.told() != "" || degraded(w.pod(t, pod)) == nil {
		t.Errorf("at first: %+v", result)
	}
	if result := w.step(t, pod, 2*time.Minute); result.RequeueAfter != deadline-time.Minute || w.told() != "" {
		t.Errorf("before the deadline: %+v", result)
	}
	w.fail = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, pod.Name, errors.New("changed"))
	if result := w.step(t, pod, 4*time.Minute); result.RequeueAfter != time.Second || containerOf(t, w.pod(t, pod), medusa).Image == "cassandra:4.1" {
		t.Errorf("on a conflict: %+v", result)
	}
	since, _ := w.held(t, pod)
	w.step(t, pod, 5*time.Minute)
	now := w.pod(t, pod)
	if c := degraded(now); containerOf(t, now, medusa).Image != "cassandra:4.1" || c == nil || c.Reason != api.DegradedHealed || !c.LastTransitionTime.Equal(new(at(time.Minute))) {
		t.Errorf("healed: %+v", c)
	}
	for _, p := range parts(now) {
		if p.Name != medusa && p.Image != containerOf(t, pod, p.Name).Image {
			t.Errorf("container %s was patched too", p.Name)
		}
	}
	if held, ok := w.held(t, pod); !ok || held.Until != since.Until {
		t.Errorf("held twice: %+v, before %+v", held, since)
	}
	if got := w.told(); got != "StategraftHeldBack StategraftHealed" {
		t.Errorf("told %q", got)
	}
	for _, later := range []time.Duration{6, 60, 600} {
		w.step(t, pod, later*time.Minute)
	}
	if got := w.told(); got != "StategraftNotHealed" { // the status was never changed
		t.Errorf("told %q later", got)
	}
}

func TestReconcileRecovers(t *testing.T) {
	pod, ns := failing(t, waiting(medusa, "ErrImagePull"))
	w := worldOf(t, pod, ns)
	w.step(t, pod, time.Minute)
	now := w.pod(t, pod)
	apply(t, now, runsNow(medusa), func(t testing.TB, pod *corev1.Pod) { statusOf(t, pod, medusa).Ready = true })
	if err := w.client.Status().Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	w.step(t, pod, 2*time.Minute)
	if c := conditionOf(w.pod(t, pod), api.ConditionDegraded); c == nil || c.Status != corev1.ConditionFalse || c.Reason != api.DegradedRecovered {
		t.Errorf("recovered: %+v", c)
	}
	if got := w.told(); got != "" {
		t.Errorf("told %q", got)
	}
}

// A pod that has more of us than its backup is healed, and its workload not held back.
func TestReconcileNeedsUs(t *testing.T) {
	pod, ns := failing(t, waiting(medusa, "ErrImagePull"), marked(api.DegradedImagePull, 0))
	ns.Annotations = map[string]string{api.AnnotationHostNetwork: "true"}
	w := worldOf(t, pod, ns)
	w.step(t, pod, time.Hour)
	if _, ok := w.held(t, pod); ok || w.told() != "StategraftHealed" {
		t.Error("held back")
	}
}

// full fills the list of what is held back.
func fullList() *corev1.ConfigMap {
	l := ledger{}
	for i := range maxEntries {
		l.hold(entryOf(fmt.Sprintf("x%d", i), api.CauseRefused), start, start.Add(23*time.Hour))
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "stategraft", Name: api.HeldBackConfigMap}, Data: l.encode()}
}

func TestReconcileFull(t *testing.T) {
	pod, ns := failing(t, waiting(medusa, "ErrImagePull"), marked(api.DegradedImagePull, 0))
	w := worldOf(t, pod, ns, fullList())
	w.step(t, pod, 23*time.Hour)
	if _, ok := w.held(t, pod); ok || w.told() != "StategraftHealed" {
		t.Error("not healed, or held back")
	}
	pod, ns = failing(t, unscheduled(22*time.Hour, corev1.PodReasonUnschedulable, "0/1 nodes are available: 1 Insufficient cpu."))
	w = worldOf(t, pod, ns, fullList(), node("a", "1", "8Gi"))
	w.survey.reader = fieldless{w.client}
	if w.step(t, pod, 23*time.Hour); w.pod(t, pod) == nil {
		t.Error("deleted, to be injected again")
	}
}

func TestReconcilePending(t *testing.T) {
	event := func(reason string, last time.Duration) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "cassandra", Name: reason}, Reason: reason, InvolvedObject: corev1.ObjectReference{UID: "uid"}, FirstTimestamp: at(0), LastTimestamp: at(last)}
	}
	other := func(cpu string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "other"}, Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "c"}}}}
		pod.Spec.Containers[0].Resources.Requests = amounts(cpu, "0")
		return pod
	}
	for _, c := range []struct {
		name    string
		objects []client.Object
		ignore  bool
		bare    bool
		deleted bool
		told    string
	}{
		{"room without us", []client.Object{node("a", "1", "8Gi")}, false, false, true, "StategraftHeldBack StategraftReplaced"},
		{"no room", []client.Object{node("a", "500m", "8Gi")}, false, false, false, ""},
		{"no room beside others", []client.Object{node("a", "2", "8Gi"), other("1500m")}, false, false, false, ""},
		{"room beside others", []client.Object{node("a", "2", "8Gi"), other("1")}, false, false, true, "StategraftHeldBack StategraftReplaced"},
		{"a node is coming", []client.Object{node("a", "1", "8Gi"), event("TriggeredScaleUp", 5*time.Minute)}, false, false, false, ""},
		{"a node was to come", []client.Object{node("a", "1", "8Gi"), event("TriggeredScaleUp", -time.Hour)}, false, false, true, "StategraftHeldBack StategraftReplaced"},
		{"injected all the same", []client.Object{node("a", "1", "8Gi")}, true, false, false, ""},
		{"nobody would create it again", []client.Object{node("a", "1", "8Gi")}, false, true, false, "StategraftHeldBack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod, ns := failing(t, unscheduled(0, corev1.PodReasonUnschedulable, "0/1 nodes are available: 1 Insufficient cpu."))
			if c.ignore {
				ns.Annotations = map[string]string{api.AnnotationHeldBack: api.HeldBackIgnore}
			}
			if c.bare {
				pod.OwnerReferences = nil
			}
			w := worldOf(t, slices.Concat(c.objects, []client.Object{pod, ns})...)
			w.survey.reader = fieldless{w.client}
			w.step(t, pod, 10*time.Minute)
			if deleted := w.pod(t, pod) == nil; deleted != c.deleted {
				t.Errorf("deleted is %v", deleted)
			}
			if got := w.told(); got != c.told {
				t.Errorf("told %q", got)
			}
			if _, held := w.held(t, pod); held != (c.told != "") {
				t.Errorf("held back is %v", held)
			}
		})
	}
}

// fieldless does without the field selector of the survey, which the fake client
// does not know.
type fieldless struct{ client.Reader }

func (f fieldless) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return f.Reader.List(ctx, list, slices.DeleteFunc(slices.Clone(opts), func(o client.ListOption) bool {
		_, ok := o.(client.MatchingFieldsSelector)
		return ok
	})...)
}

// Only a pod that was created since shows that the cause is gone.
func TestReconcileReleases(t *testing.T) {
	for _, c := range []struct {
		name    string
		created time.Duration
		changes []change
		want    bool
	}{
		{"an old replica", -time.Hour, nil, false},
		{"one of the same second", 0, nil, false},
		{"created since", time.Second, nil, true},
		{"created since, healed", time.Second, []change{inImageOf(medusa, "cassandra"), marked(api.DegradedHealed, 0)}, false},
		{"created since, without a part", time.Second, []change{waiting(medusa, "ContainerCreating")}, false},
		{"created since, without us", time.Second, []change{nothingOfOurs}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod, ns := failing(t, c.changes...)
			pod.CreationTimestamp = at(c.created)
			w := worldOf(t, pod, ns)
			owner, _ := ownerOf(pod)
			if _, err := w.store.hold(t.Context(), api.HeldBack{Namespace: pod.Namespace, Kind: owner.Kind, Name: owner.Name, Cause: api.CauseImagePull}, start); err != nil {
				t.Fatal(err)
			}
			w.step(t, pod, time.Minute)
			if entry, known := w.held(t, pod); !known || entry.Active(w.now) == c.want {
				t.Errorf("known is %v, held back until %s, ended at %s", known, entry.Until, entry.Ended)
			}
			if told := w.told(); (told == "StategraftReleased") != c.want {
				t.Errorf("told %q", told)
			}
		})
	}
}
