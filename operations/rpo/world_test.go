package rpo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/coverage"
)

// world is an API server with a reconciler.
type world struct {
	*reconciler
	t         *testing.T
	c         client.Client
	events    *events.FakeRecorder
	clock     time.Time
	uncovered []coverage.Uncovered
	writes    int
	lists     int // of pods, whole or not
	fail      error
}

func newWorld(t *testing.T, given ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(s), api.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, clock: now, events: events.NewFakeRecorder(100)}
	w.c = fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(&api.Backup{}, &api.BackupSchedule{}).WithObjects(given...).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if w.fail != nil {
				return w.fail
			}
			w.writes++
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*metav1.PartialObjectMetadataList); ok && list.GetObjectKind().GroupVersionKind().Kind == "PodList" {
				w.lists++
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	clock := func() time.Time { return w.clock }
	w.reconciler = &reconciler{every: DefaultEvery, now: clock, out: &collector{}, tell: &teller{status: w.c, events: w.events},
		from: &source{objects: w.c, cached: w.c, live: w.c, own: "stategraft-system", uncovered: func() []coverage.Uncovered { return w.uncovered }}}
	return w
}

// look reconciles once, so long after the last time, and tells after how long again.
func (w *world) look(later time.Duration) time.Duration {
	w.t.Helper()
	w.clock = w.clock.Add(later)
	result, err := w.Reconcile(w.t.Context(), all)
	if err != nil {
		w.t.Fatal(err)
	}
	return result.RequeueAfter
}

// told are the events since the last time; each has to have all of the words.
func (w *world) told(want ...string) {
	w.t.Helper()
	var got []string
	for {
		select {
		case note := <-w.events.Events:
			got = append(got, note)
			continue
		default:
		}
		break
	}
	if len(got) != len(want) {
		w.t.Errorf("events %q, want %q", got, want)
		return
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			w.t.Errorf("event %q, want %q", got[i], want[i])
		}
	}
}

func (w *world) condition(name string) string {
	w.t.Helper()
	var s api.BackupSchedule
	if err := w.c.Get(w.t.Context(), client.ObjectKey{Namespace: "prod", Name: name}, &s); err != nil {
		w.t.Fatal(err)
	}
	c := meta.FindStatusCondition(s.Status.Conditions, ConditionWithinRPO)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

func (w *world) scrape() string {
	w.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w.out)
	families, err := registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			line := strings.TrimPrefix(family.GetName(), "stategraft_")
			for _, pair := range m.GetLabel() {
				line += " " + pair.GetValue()
			}
			lines = append(lines, fmt.Sprintf("%s %v", line, m.GetGauge().GetValue()))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func namespace(name string, annotations map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelInject: api.InjectEnabled}, Annotations: annotations}}
}

func pod(namespace, name, set string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u-pod", CreationTimestamp: *at(30 * day), Labels: map[string]string{api.LabelInjected: "cassandra"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set, UID: "u-set", Controller: new(true)}}}}
}

func pointer[T any](v T) *T { return &v }
