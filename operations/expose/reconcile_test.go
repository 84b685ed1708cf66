package expose

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// world is an API server with namespace prod, and a reconciler.
type world struct {
	*reconciler
	t      *testing.T
	c      client.Client
	events *events.FakeRecorder
	clock  time.Time
}

func newWorld(t *testing.T, given ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(s), api.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	given = append(given, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}})
	w := &world{t: t, clock: now, events: events.NewFakeRecorder(100)}
	w.c = fake.NewClientBuilder().WithScheme(s).WithObjects(given...).WithStatusSubresource(&corev1.Service{}).Build()
	w.restart()
	return w
}

// restart is another process.
func (w *world) restart() {
	w.reconciler = &reconciler{cached: w.c, services: w.c, live: w.c, own: "stategraft-system", linger: DefaultLinger,
		now: func() time.Time { return w.clock }, memory: newMemory(), write: &writer{client: w.c, events: w.events}}
}

func (w *world) run() reconcile.Result {
	w.t.Helper()
	result, err := w.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "prod"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func (w *world) service(name string) *corev1.Service {
	w.t.Helper()
	s := &corev1.Service{}
	if err := w.c.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: name}, s); err != nil {
		if client.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		}
		return nil
	}
	return s
}

func (w *world) address(pod string) string {
	w.t.Helper()
	p := &corev1.Pod{}
	if err := w.c.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: pod}, p); err != nil {
		w.t.Fatal(err)
	}
	return p.Annotations[api.AnnotationPublicAddress]
}

func (w *world) given(name string, in corev1.LoadBalancerIngress) {
	w.t.Helper()
	s := w.service(name)
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{in}
	if err := w.c.Status().Update(context.Background(), s); err != nil {
		w.t.Fatal(err)
	}
}

// told are the events since it was last asked.
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

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// From a pod without a Service to one whose address has changed.
func TestExposed(t *testing.T) {
	w := newWorld(t, pod("kvs-0", 6200, 6201))
	w.run()
	s := w.service("expose-kvs-0")
	if s == nil || s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.Selector[labelPodName] != "kvs-0" || !s.Spec.PublishNotReadyAddresses || len(s.Spec.Ports) != 2 ||
		s.OwnerReferences[0].Kind != "StatefulSet" || s.OwnerReferences[0].UID != "s" {
		t.Fatalf("Service %+v", s)
	}
	w.run()
	if w.address("kvs-0") != "" {
		t.Error("an address from nowhere")
	}
	w.given("expose-kvs-0", corev1.LoadBalancerIngress{IP: "203.0.113.7"})
	w.run()
	if got := w.address("kvs-0"); got != "203.0.113.7" || !strings.Contains(w.told(), eventExposed) {
		t.Errorf("address %q", got)
	}
	w.restart()
	w.run()
	if told := w.told(); told != "" {
		t.Errorf("told again: %s", told)
	}
	w.given("expose-kvs-0", corev1.LoadBalancerIngress{Hostname: "x.example"})
	w.run()
	if got, told := w.address("kvs-0"), w.told(); got != "x.example" || !strings.Contains(told, eventMoved) {
		t.Errorf("address %q, told %s", got, told)
	}
}

// The Service stays what it was made as, and keeps what others write on it.
func TestRepaired(t *testing.T) {
	w := newWorld(t, pod("kvs-0", 6200))
	w.run()
	s := w.service("expose-kvs-0")
	s.Spec.Selector, s.Spec.Ports[0].NodePort = map[string]string{"app": "x"}, 30123
	s.Annotations = map[string]string{"provider/internal": "true"}
	s.OwnerReferences[0].UID = "of-before"
	w.must(w.c.Update(context.Background(), s))
	w.restart()
	w.run()
	s = w.service("expose-kvs-0")
	if s.Spec.Selector[labelPodName] != "kvs-0" || len(s.Spec.Selector) != 1 || s.Spec.Ports[0].NodePort != 30123 || s.Annotations["provider/internal"] != "true" ||
		len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != "s" {
		t.Errorf("Service %+v", s)
	}
}

// A Service of the name that is not ours is left alone, and told of once.
func TestForeignService(t *testing.T) {
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "expose-kvs-0"}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1"}}
	w := newWorld(t, pod("kvs-0"), foreign)
	if result := w.run(); result.RequeueAfter != takenAgain {
		t.Errorf("again after %s", result.RequeueAfter)
	}
	w.run()
	if told := w.told(); strings.Count(told, eventTaken) != 1 {
		t.Errorf("told %s", told)
	}
	if s := w.service("expose-kvs-0"); s.Spec.ClusterIP != "10.0.0.1" || len(s.Labels) > 0 || len(s.Spec.Ports) > 0 {
		t.Errorf("it was changed: %+v", s)
	}
	w.must(w.c.Delete(context.Background(), foreign))
	w.run()
	if s := w.service("expose-kvs-0"); s == nil || s.Labels[api.LabelExposed] != "kvs-0" {
		t.Errorf("not made when the name was free: %+v", s)
	}
}

// A pod that is re-created keeps its Service and its address; one that is scaled away
// loses them, after a while; one that is not to be exposed any more at once.
func TestServiceStays(t *testing.T) {
	ctx := context.Background()
	kvs := set(2, 0)["kvs"]
	w := newWorld(t, pod("kvs-0"), pod("kvs-1"), kvs)
	w.run()
	w.given("expose-kvs-1", corev1.LoadBalancerIngress{IP: "203.0.113.7"})
	w.must(w.c.Delete(ctx, pod("kvs-1")))
	w.run()
	again := pod("kvs-1")
	again.UID = "another"
	w.must(w.c.Create(ctx, again))
	w.run()
	if w.service("expose-kvs-1") == nil || w.address("kvs-1") != "203.0.113.7" {
		t.Error("a pod that was re-created has lost its address")
	}
	w.must(w.c.Get(ctx, client.ObjectKeyFromObject(kvs), kvs))
	kvs.Spec.Replicas = new(int32(1))
	w.must(w.c.Update(ctx, kvs))
	w.must(w.c.Delete(ctx, pod("kvs-1")))
	if result := w.run(); result.RequeueAfter != DefaultLinger {
		t.Errorf("again after %s", result.RequeueAfter)
	}
	w.restart()
	w.clock = w.clock.Add(DefaultLinger - time.Second)
	w.run()
	if w.service("expose-kvs-1") == nil {
		t.Fatal("removed too early")
	}
	w.clock = w.clock.Add(time.Second)
	w.run()
	if w.service("expose-kvs-1") != nil || w.service("expose-kvs-0") == nil {
		t.Error("not removed, or the wrong one")
	}
	zero := &corev1.Pod{}
	w.must(w.c.Get(ctx, client.ObjectKey{Namespace: "prod", Name: "kvs-0"}, zero))
	delete(zero.Annotations, api.AnnotationExpose)
	w.must(w.c.Update(ctx, zero))
	w.run()
	if w.service("expose-kvs-0") != nil {
		t.Error("the annotation is gone, and the Service is not")
	}
}

// What keeps a pod from its address is told, once, and of those only that asked for it.
func TestNotExposed(t *testing.T) {
	daemon := pod("kvs-0")
	daemon.OwnerReferences[0].Kind = "DaemonSet"
	w := newWorld(t, daemon, role(pod("mon-0"), "anna", "monitoring"))
	w.run()
	w.run()
	if told := w.told(); strings.Count(told, eventNotExposable) != 2 {
		t.Errorf("told %s", told)
	}
	of := &corev1.Namespace{}
	w = newWorld(t, plainly(role(pod("mon-0"), "anna", "monitoring")))
	w.must(w.c.Get(context.Background(), client.ObjectKey{Name: "prod"}, of))
	of.Annotations = map[string]string{api.AnnotationExpose: "LoadBalancer"}
	w.must(w.c.Update(context.Background(), of))
	w.run()
	if told := w.told(); told != "" || w.service("expose-mon-0") != nil {
		t.Errorf("told %s", told)
	}
}

// A cluster without load balancers does not leave nodes waiting without a word.
func TestNoAddress(t *testing.T) {
	w := newWorld(t, pod("kvs-0"))
	w.run()
	s := w.service("expose-kvs-0")
	s.CreationTimestamp = metav1.Time{Time: now}
	w.must(w.c.Update(context.Background(), s))
	if result := w.run(); result.RequeueAfter <= 0 || result.RequeueAfter > patience || w.told() != "" {
		t.Errorf("again after %s", result.RequeueAfter)
	}
	w.clock = now.Add(patience)
	w.run()
	w.run()
	if told := w.told(); strings.Count(told, eventNoAddress) != 1 {
		t.Errorf("told %s", told)
	}
	w.given("expose-kvs-0", corev1.LoadBalancerIngress{IP: "2001:db8::1"})
	w.run()
	if told := w.told(); !strings.Contains(told, "IPv6") || w.address("kvs-0") != "" {
		t.Errorf("told %s, address %s", told, w.address("kvs-0"))
	}
}
