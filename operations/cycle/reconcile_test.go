package cycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// world is an API server with namespace prod, StatefulSet kvs of three pods and ConfigMap
// conf, and a reconciler.
type world struct {
	*reconciler
	t       *testing.T
	c       client.WithWatch
	events  *events.FakeRecorder
	clock   time.Time
	evicted []string
	refuse  error // of each eviction
	count   int
}

func newWorld(t *testing.T, annotations map[string]string) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(s), api.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, clock: now, events: events.NewFakeRecorder(100)}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "kvs", UID: "s"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3))}}
	conf := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "conf", CreationTimestamp: metav1.Time{Time: now.Add(-24 * time.Hour)}}, Data: map[string]string{"anna-config.yml": "1"}}
	given := []client.Object{set, conf, pod("kvs-0", true), pod("kvs-1", true), pod("kvs-2", true),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod", Labels: map[string]string{api.LabelInject: api.InjectEnabled}, Annotations: annotations}}}
	w.c = fake.NewClientBuilder().WithScheme(s).WithObjects(given...).WithStatusSubresource(&corev1.Pod{}).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o client.Object, body client.Object, opts ...client.SubResourceCreateOption) error {
			if sub != "eviction" {
				t.Errorf("subresource %s", sub)
			}
			if w.refuse != nil {
				return w.refuse
			}
			if e := body.(*policyv1.Eviction); *e.DeleteOptions.Preconditions.UID != o.GetUID() {
				t.Errorf("evicts whoever has the name: %+v", e)
			}
			w.evicted = append(w.evicted, o.GetName())
			return c.Delete(ctx, o)
		}}).Build()
	for i := range 3 { // the builder takes no status of objects with a subresource of it
		p := pod("kvs-"+string(rune('0'+i)), true)
		w.must(w.c.Status().Update(context.Background(), p))
	}
	w.restart()
	return w
}

// restart is another process.
func (w *world) restart() {
	w.reconciler = &reconciler{cached: w.c, live: w.c, memory: newMemory(), write: &writer{client: w.c, events: w.events},
		options: Options{Namespace: "stategraft-system", Every: DefaultEvery, Settle: DefaultSettle, Clock: func() time.Time { return w.clock }}}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) run() reconcile.Result {
	w.t.Helper()
	result, err := w.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "prod"}})
	w.must(err)
	return result
}

// settled runs until all pods have been Ready for long enough, and once more.
func (w *world) settled() {
	w.t.Helper()
	w.run()
	w.clock = w.clock.Add(DefaultSettle)
	w.run()
}

func (w *world) change(text string) {
	w.t.Helper()
	conf := &corev1.ConfigMap{}
	w.must(w.c.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: "conf"}, conf))
	conf.Data["anna-config.yml"] = text
	w.must(w.c.Update(context.Background(), conf))
}

// comes makes an evicted pod anew, as the StatefulSet does.
func (w *world) comes(name string, isReady bool) {
	w.t.Helper()
	p := pod(name, isReady)
	w.count++
	p.UID = types.UID("again-" + string(rune('a'+w.count)))
	p.CreationTimestamp = metav1.Time{Time: w.clock}
	p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.Time{Time: w.clock.Add(time.Second)}
	status := p.Status
	w.must(w.c.Create(context.Background(), p))
	p.Status = status
	w.must(w.c.Status().Update(context.Background(), p))
}

func (w *world) ready(name string) {
	w.t.Helper()
	p := &corev1.Pod{}
	w.must(w.c.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: name}, p))
	p.Status.Conditions[0].Status = corev1.ConditionTrue
	w.must(w.c.Status().Update(context.Background(), p))
}

func (w *world) told() string {
	var all []string
	for {
		select {
		case e := <-w.events.Events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}

var asks = map[string]string{api.AnnotationOnConfigChange: api.OnConfigChangeRestart}

// All pods are re-created, one at a time, whatever becomes of the controller meanwhile.
func TestRestart(t *testing.T) {
	w := newWorld(t, asks)
	w.settled()
	if len(w.evicted) > 0 {
		t.Fatalf("evicted without a change: %q", w.evicted)
	}
	w.change("2")
	w.run()
	for i, name := range []string{"kvs-2", "kvs-1", "kvs-0"} {
		if len(w.evicted) != i+1 || w.evicted[i] != name {
			t.Fatalf("evicted %q, want %s next", w.evicted, name)
		}
		w.settled() // it is not back
		w.restart()
		w.settled()
		w.comes(name, false)
		w.settled() // it is not Ready
		if len(w.evicted) != i+1 {
			t.Fatalf("evicted %q while %s was not Ready", w.evicted, name)
		}
		w.ready(name)
		w.run()
		if len(w.evicted) != i+1 {
			t.Fatalf("evicted %q at once", w.evicted)
		}
		w.settled()
	}
	w.settled()
	if len(w.evicted) != 3 || testutil.ToFloat64(outdatedPods.WithLabelValues("prod", "kvs")) != 0 {
		t.Errorf("evicted %q, outdated %f", w.evicted, testutil.ToFloat64(outdatedPods.WithLabelValues("prod", "kvs")))
	}
	if told := w.told(); strings.Count(told, eventRestart) != 3 || strings.Contains(told, eventOutdated) {
		t.Errorf("told %s", told)
	}
}

// Without the annotation it is told, once, and counted.
func TestOnlyTold(t *testing.T) {
	w := newWorld(t, nil)
	w.settled()
	w.change("2")
	w.settled()
	w.settled()
	told := w.told()
	if len(w.evicted) > 0 || strings.Count(told, eventOutdated) != 1 || !strings.Contains(told, api.AnnotationOnConfigChange) || !strings.Contains(told, "kvs-0, kvs-1, kvs-2") {
		t.Errorf("evicted %q, told %s", w.evicted, told)
	}
	if got := testutil.ToFloat64(outdatedPods.WithLabelValues("prod", "kvs")); got != 3 {
		t.Errorf("%f pods are outdated", got)
	}
	w.change("1")
	w.settled()
	if got := testutil.ToFloat64(outdatedPods.WithLabelValues("prod", "kvs")); got != 0 || w.told() != "" {
		t.Errorf("changed back, and %f pods are outdated", got)
	}
	w.change("3")
	w.settled()
	if told := w.told(); strings.Count(told, eventOutdated) != 1 {
		t.Errorf("told %s", told)
	}
}

// What a pod was started with is on it, and of it alone.
func TestStartedIsNoted(t *testing.T) {
	w := newWorld(t, nil)
	w.run()
	p := &corev1.Pod{}
	w.must(w.c.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: "kvs-0"}, p))
	if got := startedWith(p); got == "" || got == unknown {
		t.Errorf("noted %q", p.Annotations)
	}
	before := p.ResourceVersion
	w.restart()
	w.run()
	w.must(w.c.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: "kvs-0"}, p))
	if p.ResourceVersion != before {
		t.Error("noted again")
	}
	// A copy in a template is of another pod.
	p.Annotations[patches.AnnotationConfigStarted] = "old another-uid"
	w.must(w.c.Update(context.Background(), p))
	w.restart()
	w.settled()
	if w.told() != "" {
		t.Error("another pod's note is believed")
	}
}

// A PodDisruptionBudget is kept; that is told once, and tried again.
func TestBudget(t *testing.T) {
	w := newWorld(t, asks)
	w.settled()
	w.refuse = apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	w.change("2")
	if result := w.run(); result.RequeueAfter != DefaultEvery {
		t.Errorf("again after %s", result.RequeueAfter)
	}
	w.settled()
	if told := w.told(); strings.Count(told, eventHeld) != 1 || len(w.evicted) > 0 {
		t.Errorf("told %s", told)
	}
	w.refuse = nil
	w.run()
	if !slices.Equal(w.evicted, []string{"kvs-2"}) {
		t.Errorf("evicted %q", w.evicted)
	}
	w = newWorld(t, asks)
	w.settled()
	w.refuse = errors.New("away")
	w.change("2")
	if _, err := w.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "prod"}}); err == nil {
		t.Error("an error is swallowed")
	}
}

// A workload that does not start with a configuration gets over it when that is mended:
// the pod that has it goes first, and the others were left alone.
func TestBadConfiguration(t *testing.T) {
	w := newWorld(t, asks)
	w.settled()
	w.change("nonsense")
	w.run()
	w.comes("kvs-2", false)
	w.settled()
	w.settled()
	if !slices.Equal(w.evicted, []string{"kvs-2"}) {
		t.Fatalf("evicted %q", w.evicted)
	}
	w.change("2")
	w.run()
	if !slices.Equal(w.evicted, []string{"kvs-2", "kvs-2"}) {
		t.Errorf("evicted %q", w.evicted)
	}
}

// What else holds it back.
func TestNotNow(t *testing.T) {
	for what, edit := range map[string]func(w *world){
		"a Restore": func(w *world) {
			ns := &corev1.Namespace{}
			w.must(w.c.Get(context.Background(), client.ObjectKey{Name: "prod"}, ns))
			ns.Labels[api.LabelRestoring] = api.RestoringTrue
			w.must(w.c.Update(context.Background(), ns))
		},
		"the namespace is not labelled any more": func(w *world) {
			ns := &corev1.Namespace{}
			w.must(w.c.Get(context.Background(), client.ObjectKey{Name: "prod"}, ns))
			delete(ns.Labels, api.LabelInject)
			w.must(w.c.Update(context.Background(), ns))
		},
		"the ConfigMap is gone": func(w *world) {
			w.must(w.c.Delete(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "conf"}}))
		},
		"the pod says otherwise": func(w *world) {
			p := &corev1.Pod{}
			w.must(w.c.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: "kvs-2"}, p))
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, api.AnnotationOnConfigChange, "no")
			w.must(w.c.Update(context.Background(), p))
		},
	} {
		w := newWorld(t, asks)
		w.settled()
		w.change("2")
		edit(w)
		w.settled()
		w.settled()
		if len(w.evicted) > 0 {
			t.Errorf("%s: evicted %q", what, w.evicted)
		}
	}
}
