package request

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
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

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is an API server with StatefulSet cas, and a reconciler.
type world struct {
	t      *testing.T
	c      client.Client
	r      *reconciler
	events *events.FakeRecorder
	now    time.Time
	// failAfter has the API server fail all writes to pods after so many; -1 never.
	failAfter int
	create    func() error // what comes of creating a Restore, if not nil
}

func scheme(t *testing.T) *runtime.Scheme {
	s := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(s), api.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return s
}

var errDown = errors.New("the API server is down")

func newWorld(t *testing.T, objects ...client.Object) *world {
	w := &world{t: t, now: start, failAfter: -1}
	w.c = fake.NewClientBuilder().WithScheme(scheme(t)).WithStatusSubresource(&api.Restore{}).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if _, ok := object.(*corev1.Pod); ok {
				if w.failAfter == 0 {
					return errDown
				}
				w.failAfter--
			}
			return c.Patch(ctx, object, patch, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if _, ok := object.(*api.Restore); ok {
				if w.create != nil {
					if err := w.create(); err != nil {
						return err
					}
				}
				object.SetUID(types.UID("uid-" + object.GetName()))
			}
			return c.Create(ctx, object, opts...)
		},
	}).Build()
	w.restart()
	return w
}

// restart starts a controller that remembers nothing.
func (w *world) restart() {
	w.events = events.NewFakeRecorder(1000)
	w.r = &reconciler{cached: w.c, live: w.c, write: &writer{client: w.c, events: w.events}, now: func() time.Time { return w.now },
		settle: DefaultSettle, log: logr.Discard(), groups: map[types.NamespacedName]group{}}
}

func (w *world) reconcile() (time.Duration, error) {
	result, err := w.r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "StatefulSet/cas"}})
	return result.RequeueAfter, err
}

// run reconciles until nothing is to be done, by the clock.
func (w *world) run() {
	w.t.Helper()
	for range 10 {
		after, err := w.reconcile()
		if err != nil {
			w.t.Fatal(err)
		}
		if after == 0 || after == followEvery {
			return
		}
		w.now = w.now.Add(after)
	}
	w.t.Fatal("does not come to rest")
}

func (w *world) said() (all []string) {
	for {
		select {
		case text := <-w.events.Events:
			all = append(all, text)
		default:
			return all
		}
	}
}

func (w *world) restores() []api.Restore {
	var all api.RestoreList
	if err := w.c.List(context.Background(), &all); err != nil {
		w.t.Fatal(err)
	}
	return all.Items
}

func (w *world) pod(name string) *corev1.Pod {
	pod := &corev1.Pod{}
	if err := w.c.Get(context.Background(), types.NamespacedName{Namespace: "ns", Name: name}, pod); err != nil {
		w.t.Fatal(err)
	}
	return pod
}

func (w *world) answer(pod string) string { return w.pod(pod).Annotations[api.AnnotationRestoreAnswer] }

// annotate sets an annotation of a pod, or removes it.
func (w *world) annotate(name, key, value string) {
	pod := w.pod(name)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[key] = value
	if value == "" {
		delete(pod.Annotations, key)
	}
	if err := w.c.Update(context.Background(), pod); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) phase(phase api.RestorePhase) {
	for _, r := range w.restores() {
		r.Status.Phase = phase
		if err := w.c.Status().Update(context.Background(), &r); err != nil {
			w.t.Fatal(err)
		}
	}
}

// a pod of StatefulSet cas that asks for a backup, if not for "".
func aPod(name, backup string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{},
			Labels:          map[string]string{api.LabelInjected: "cassandra"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "cas", UID: "set", Controller: new(true)}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "cassandra"},
			{Name: "stategraft-medusa", Ports: []corev1.ContainerPort{{Name: node.PortName, ContainerPort: node.DefaultPort}}}}},
	}
	if backup != "" {
		pod.Annotations[api.AnnotationRestore] = backup
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

// templateRestores gives a pod a restore container of its own.
func templateRestores(backup string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "stategraft-restore", Env: []corev1.EnvVar{{Name: "STATEGRAFT_BACKUP", Value: backup}}}}
	}
}

func aSet(annotation string) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cas"}}
	if annotation != "" {
		set.Spec.Template.Annotations = map[string]string{api.AnnotationRestore: annotation}
	}
	return set
}

func mention(all []string, texts ...string) bool {
	return slices.ContainsFunc(all, func(s string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(s, text) })
	})
}
