package adopt

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/coverage"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// world is an API server with namespace prod, and the controller. Its watch is as far as the
// server unless it is held.
type world struct {
	*controller
	t      *testing.T
	c      client.Client // namespaces
	told   *events.FakeRecorder
	clock  time.Time
	all    map[types.NamespacedName]*corev1.Pod
	held   map[types.NamespacedName]*corev1.Pod // what the watch has, where that is behind
	nodes  map[string]*corev1.Node
	digest string
	fails  error // of additions
	reads  int
	added  []string // pod and the roles' names, in order
	asked  map[string]bool
	behind bool // the watch has no list yet
	out    map[string]webhook.Outcome
	where  map[string]string // Restores by pod
}

func newWorld(t *testing.T, pods ...*corev1.Pod) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := clientscheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, clock: start, told: events.NewFakeRecorder(1000), all: map[types.NamespacedName]*corev1.Pod{}, held: map[types.NamespacedName]*corev1.Pod{},
		nodes: map[string]*corev1.Node{"n": aNode("n"), "m": aNode("m")}, digest: "p", out: map[string]webhook.Outcome{}, where: map[string]string{}}
	w.c = fake.NewClientBuilder().WithScheme(s).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod", UID: "prod",
		Labels: map[string]string{api.LabelInject: api.InjectEnabled}, Annotations: map[string]string{api.AnnotationAdopt: api.AdoptRunning}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}).Build()
	for _, p := range pods {
		w.all[client.ObjectKeyFromObject(p)] = p
	}
	w.restart()
	return w
}

// restart is another process.
func (w *world) restart() {
	o := Options{Namespace: "stategraft-system", Clock: func() time.Time { return w.clock }, Uncovered: w.uncovered,
		Pair: func(context.Context, string) (string, error) { return w.digest, nil }}
	if err := o.defaults(); err != nil {
		w.t.Fatal(err)
	}
	w.controller = &controller{Options: o, namespaces: w.c, source: w, server: w, events: w.told, decide: w.decides}
	w.begin()
}

func (w *world) uncovered() (all []coverage.Uncovered) {
	for _, p := range w.all {
		meta := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Annotations: p.Annotations}}
		all = append(all, coverage.Uncovered{Pod: meta})
	}
	return all
}

func (w *world) decides(in webhook.Input, a patches.Adoption) (webhook.Outcome, []corev1.EphemeralContainer) {
	pod, err := workload.Parse(in.Pod)
	if err != nil {
		w.t.Fatal(err)
	}
	if out, ok := w.out[pod.Metadata.Name]; ok {
		return out, nil
	}
	return webhook.Outcome{Decision: workload.Decision{Verdict: workload.Inject, Workload: workload.Workload{Kind: workload.KindCassandra}}}, grafted(a, cassandra...)
}

func (w *world) keep(_ context.Context, namespaces map[string]bool) (bool, error) {
	w.asked = namespaces
	return !w.behind, nil
}

func (w *world) pods(namespace string) (all []*corev1.Pod) {
	for key, p := range w.all {
		if key.Namespace == namespace {
			if old := w.held[key]; old != nil {
				p = old
			}
			all = append(all, slim(p))
		}
	}
	return all
}

func (w *world) stop() {}

func (w *world) pod(_ context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	w.reads++
	if p := w.all[key]; p != nil {
		return p.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
}

func (w *world) node(_ context.Context, name string) (*corev1.Node, error) {
	if n := w.nodes[name]; n != nil {
		return n, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
}

func (w *world) pair(context.Context, string) (string, error) { return w.digest, nil }

func (w *world) restoring(context.Context, string) (map[string]string, error) { return w.where, nil }

func (w *world) askers(context.Context) (namespaces []string, err error) {
	for key, p := range w.all {
		if p.Annotations[api.AnnotationAdopt] == api.AdoptRunning {
			namespaces = append(namespaces, key.Namespace)
		}
	}
	return namespaces, nil
}

func (w *world) add(_ context.Context, pod *corev1.Pod, containers []corev1.EphemeralContainer) (*corev1.Pod, error) {
	if w.fails != nil {
		return nil, w.fails
	}
	now := w.all[client.ObjectKeyFromObject(pod)]
	if now == nil || now.UID != pod.UID || now.ResourceVersion != pod.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, pod.Name, errors.New("it has changed"))
	}
	now.Spec.EphemeralContainers = append(now.Spec.EphemeralContainers, containers...)
	now.ResourceVersion += "1"
	var names []string
	for _, c := range containers {
		names = append(names, strings.TrimPrefix(c.Name, workload.OwnPrefix))
	}
	w.added = append(w.added, pod.Name+": "+strings.Join(names, " "))
	return now.DeepCopy(), nil
}

func (w *world) label(_ context.Context, pod *corev1.Pod, kind string) error {
	now := w.all[client.ObjectKeyFromObject(pod)]
	if now == nil || now.ResourceVersion != pod.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, pod.Name, errors.New("it has changed"))
	}
	now.ResourceVersion += "1"
	if kind == "" {
		delete(now.Labels, api.LabelInjected)
		return nil
	}
	metav1.SetMetaDataLabel(&now.ObjectMeta, api.LabelInjected, kind)
	return nil
}

// look has the controller look once, and says what it has added.
func (w *world) look() string {
	w.t.Helper()
	if _, err := w.pass(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	added := strings.Join(w.added, ", ")
	w.added = nil
	return added
}

func (w *world) expect(what, want string) {
	w.t.Helper()
	if got := w.look(); got != want {
		w.t.Fatalf("%s: added %q, want %q", what, got, want)
	}
}

// heard are the events since it was last asked.
func (w *world) heard() string {
	var all []string
	for {
		select {
		case e := <-w.told.Events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}

func (w *world) hears(what string, parts ...string) {
	w.t.Helper()
	heard := w.heard()
	for _, part := range parts {
		if !strings.Contains(heard, part) {
			w.t.Fatalf("%s: heard %q, want %q", what, heard, part)
		}
	}
	if len(parts) == 0 && heard != "" {
		w.t.Fatalf("%s: heard %q", what, heard)
	}
}

func (w *world) one(name string) *corev1.Pod {
	w.t.Helper()
	p := w.all[types.NamespacedName{Namespace: "prod", Name: name}]
	if p == nil {
		w.t.Fatalf("no pod %s", name)
	}
	p.ResourceVersion += "1" // whoever asks changes it
	return p
}

func (w *world) change(namespace string, edit func(*corev1.Namespace)) {
	w.t.Helper()
	ns := &corev1.Namespace{}
	if err := w.c.Get(context.Background(), client.ObjectKey{Name: namespace}, ns); err != nil {
		w.t.Fatal(err)
	}
	edit(ns)
	if err := w.c.Update(context.Background(), ns); err != nil {
		w.t.Fatal(err)
	}
}
