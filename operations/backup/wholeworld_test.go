package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/claims"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

// whole is the controller with an API server in memory and sidecars that are Medusa's
// real service, simulated behind it.
type whole struct {
	*testing.T
	now     time.Time
	client  client.Client
	plain   client.Client // the same, uncounted
	storage *sidecartest.Storage
	pods    []*wholePod
	r       *reconciler
	removed []string
	told    []string

	mutex    sync.Mutex
	requests map[string]int
}

type wholePod struct {
	*sidecartest.Both
	name string

	mutex sync.Mutex
	work  sidecartest.Work
}

func (p *wholePod) set(w sidecartest.Work) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.work = w
}

var quick = sidecartest.Work{Objects: 10, Bytes: 1 << 20}

// long is a backup that is not over before the test is.
var long = sidecartest.Work{Takes: time.Hour, Objects: 10}

func newWhole(t *testing.T, pods int) *whole {
	t.Helper()
	w := &whole{T: t, now: today, requests: map[string]int{}}
	var names []string
	for i := range pods {
		names = append(names, fmt.Sprintf("cas-%d", i))
	}
	w.storage = sidecartest.NewStorage(names...)
	w.storage.Clock = w.clock
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cas", UID: "set"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(pods))}}
	objects := []client.Object{set, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}}
	for i, name := range names {
		p := &wholePod{name: name, work: quick}
		p.serve(w, sidecartest.Address(200+i))
		w.pods = append(w.pods, p)
		objects = append(objects, p.pod("1"))
	}
	w.serve(objects)
	w.start()
	return w
}

// serve starts the pod's sidecar.
func (p *wholePod) serve(w *whole, ip string) {
	w.Helper()
	of := sidecartest.Node{Name: p.name, Storage: w.storage, Work: func(string, bool) sidecartest.Work {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		return p.work
	}}
	both, err := sidecartest.StartBoth(ip, sidecartest.Pair{}, of)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(both.Close)
	p.Both = both
}

func (p *wholePod) pod(uid types.UID) *corev1.Pod {
	pod := bare(p.name)
	pod.UID, pod.Labels = uid, map[string]string{api.LabelInjected: "cassandra"}
	p.Dress(pod)
	return pod
}

// serve makes the API server, which counts what is asked of it.
func (w *whole) serve(objects []client.Object) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		w.Fatal(err)
	}
	count := func(what string) {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.requests[what]++
	}
	server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&api.Backup{}).Build()
	w.plain = server
	w.client = interceptor.NewClient(server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			count(fmt.Sprintf("get %T", object))
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			count(fmt.Sprintf("list %T", list))
			return c.List(ctx, list, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			count("patch")
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object, options ...client.SubResourceUpdateOption) error {
			count("update " + sub)
			return c.SubResource(sub).Update(ctx, object, options...)
		},
	})
}

// informers read without being counted: for them nothing is asked.
type informers struct {
	w *whole
	client.Reader
}

func (i informers) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := i.w.plain.Get(ctx, key, object, options...)
	if pod, is := object.(*corev1.Pod); is && err == nil && pod.Labels[api.LabelInjected] == "" {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name) // only injected ones are known
	}
	return err
}

func (i informers) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return i.w.plain.List(ctx, list, options...)
}

func (w *whole) count() map[string]int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return maps.Clone(w.requests)
}

// start makes a controller, which knows nothing of one before.
func (w *whole) start() {
	cached := informers{w: w}
	o := Options{Namespace: "stategraft", Sidecars: sidecar.New(nil), Remover: w, Clock: w.clock}
	o.fill()
	l := &live{objects: cached, cached: cached, reader: w.client, writer: w.client, own: o.Namespace,
		served: func(string) (*metav1.APIResourceList, error) {
			return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "backups", Verbs: []string{"create", "get"}}}}, nil
		}}
	w.r = newReconciler(l, &talks{o.Sidecars, make(chan struct{}, o.Conversations)}, claims.New(cached), w, o)
	w.r.log = logr.Discard()
}

func (w *whole) clock() time.Time {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.now
}

func (w *whole) pass(d time.Duration) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.now = w.now.Add(d)
}

// Remove implements Remover.
func (w *whole) Remove(_ context.Context, b *api.Backup, pods []corev1.Pod) error {
	w.removed = append(w.removed, fmt.Sprintf("%s by %d pods", b.Status.Name, len(pods)))
	return nil
}

func (w *whole) tell(about corev1.ObjectReference, _ *corev1.ObjectReference, _, reason, _ string) {
	w.told = append(w.told, about.Kind+" "+reason)
}

// ask makes a Backup of all pods.
func (w *whole) ask(change func(b *api.Backup)) {
	w.Helper()
	b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "b", Generation: 1, CreationTimestamp: metav1.NewTime(w.now)}}
	b.Spec.Pods = &api.BackupPods{Workload: &api.BackupWorkload{Kind: "StatefulSet", Name: "cas"}}
	change(b)
	if err := w.client.Create(context.Background(), b); err != nil {
		w.Fatal(err)
	}
}

func (w *whole) get() *api.Backup {
	w.Helper()
	b := &api.Backup{}
	if err := (informers{w: w}).Get(context.Background(), types.NamespacedName{Namespace: "ns", Name: "b"}, b); err != nil {
		w.Fatal(err)
	}
	return b
}

// run has the controller run until the Backup is as it should be; time goes on as fast
// as the controller waits.
func (w *whole) run(until func(b *api.Backup) bool) *api.Backup {
	w.Helper()
	for range 20000 {
		result, err := w.r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "b"}})
		if err != nil {
			w.Fatal(err)
		}
		w.await()
		if b := w.get(); until(b) {
			return b
		} else if result.RequeueAfter == 0 {
			w.Fatalf("nothing happens any more: %s %s", b.Status.Phase, b.Status.Message)
		}
		w.pass(result.RequeueAfter)
	}
	w.Fatalf("it does not come to that: %+v", w.get().Status)
	return nil
}

// await waits until each Medusa has done what it was asked for, as far as it goes by
// itself: its time is not that of the test.
func (w *whole) await() {
	w.Helper()
	for _, p := range w.pods {
		for end := time.Now().Add(time.Minute); !p.Settled(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				w.Fatalf("%s is at it for a minute", p.name)
			}
		}
	}
}

func over_(b *api.Backup) bool { return b.Status.Phase.Final() }

// phases are those of the pods.
func phases(b *api.Backup) string {
	var all []string
	for i := range b.Status.Pods {
		all = append(all, string(b.Status.Pods[i].Phase))
	}
	return strings.Join(all, " ")
}

func podRuns(name string) func(*api.Backup) bool {
	return func(b *api.Backup) bool {
		at := b.Status.Pod(name)
		return at != nil && at.Phase == api.PodBackupRunning
	}
}
