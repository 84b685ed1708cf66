package annotated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// world is an API server with namespace prod, and a reconciler.
type world struct {
	*reconciler
	t        *testing.T
	c        client.WithWatch
	events   *events.FakeRecorder
	clock    time.Time
	prefixes map[string]string // by pod; a pod that is not in it does not answer
	asked    int
	writes   int
	fail     error // of each writing
}

func newWorld(t *testing.T, annotations map[string]string, given ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(s), api.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, clock: now, events: events.NewFakeRecorder(100), prefixes: map[string]string{}}
	wrote := func() error { w.writes++; return w.fail }
	given = append(given, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod", Labels: map[string]string{api.LabelInject: api.InjectEnabled}, Annotations: annotations}})
	w.c = fake.NewClientBuilder().WithScheme(s).WithObjects(given...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := wrote(); err != nil {
				return err
			}
			if o.GetUID() == "" {
				o.SetUID(types.UID("u-" + o.GetName()))
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := wrote(); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := wrote(); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	w.reconciler = &reconciler{objects: w.c, cached: injectedOnly(w.c), live: w.c, nodes: w, own: "stategraft-system", memory: newMemory(),
		now: func() time.Time { return w.clock }, write: &writer{client: w.c, events: w.events}}
	return w
}

// injectedOnly is a cache as heal.ByObject makes it, as far as which pods it has.
func injectedOnly(c client.WithWatch) client.Reader {
	return interceptor.NewClient(c, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(*corev1.PodList); ok {
			opts = append(opts, client.HasLabels{api.LabelInjected})
		}
		return c.List(ctx, list, opts...)
	}})
}

// Report implements Nodes.
func (w *world) Report(_ context.Context, pod *corev1.Pod) (node.Report, error) {
	w.asked++
	prefix, ok := w.prefixes[pod.Name]
	if !ok {
		return node.Report{}, errors.New("connection refused")
	}
	return node.Report{Prefix: prefix}, nil
}

func (w *world) look() time.Duration {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "prod"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return result.RequeueAfter
}

// told are the events since the last time, each beginning so.
func (w *world) told(want ...string) {
	w.t.Helper()
	var got []string
	for len(w.events.Events) > 0 {
		got = append(got, <-w.events.Events)
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

// has are all BackupSchedules, in short.
func (w *world) has(want ...string) {
	w.t.Helper()
	var list api.BackupScheduleList
	if err := w.c.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for i := range list.Items {
		s := &list.Items[i]
		text := s.Name + ": " + s.Spec.Schedule
		if pods := s.Spec.Template.Spec.Pods; pods.Workload != nil {
			text += " of " + pods.Workload.Kind + " " + pods.Workload.Name
		} else if pods.Selector != nil {
			text += " of " + metav1.FormatLabelSelector(pods.Selector)
		} else {
			text += " of " + strings.Join(pods.Names, ",")
		}
		if s.Spec.Retention != nil {
			text += fmt.Sprintf(" keeps %d", *s.Spec.Retention.KeepLast)
		}
		if !isAnnotated(s) {
			text += " by hand"
		}
		got = append(got, text)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Errorf("there are %q, want %q", got, want)
	}
}

func (w *world) annotate(key, value string) {
	w.t.Helper()
	var ns corev1.Namespace
	if err := w.c.Get(w.t.Context(), client.ObjectKey{Name: "prod"}, &ns); err != nil {
		w.t.Fatal(err)
	}
	if value == "" {
		delete(ns.Annotations, key)
	} else {
		metav1.SetMetaDataAnnotation(&ns.ObjectMeta, key, value)
	}
	w.update(&ns)
}

func (w *world) update(o client.Object) {
	w.t.Helper()
	if err := w.c.Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	w.writes = 0
}

func (w *world) add(o client.Object) {
	w.t.Helper()
	if err := w.c.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	w.writes = 0
}

func (w *world) remove(o client.Object) {
	w.t.Helper()
	if err := w.c.Delete(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	w.writes = 0
}

func nightly(retain string) map[string]string {
	all := map[string]string{api.AnnotationBackupSchedule: "0 3 * * *"}
	if retain != "" {
		all[api.AnnotationRetain] = retain
	}
	return all
}

func set(name string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}}
}
