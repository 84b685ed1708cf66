package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
	"github.com/stategraft/stategraft/workload"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// rig is a cluster of Kubernetes with sidecars that see into simulated storages.
type rig struct {
	*Catalogue
	t      *testing.T
	client client.WithWatch
	clock  time.Time
	asked  *counting
	count  map[string]int // requests to the API server
	refuse func(verb string, object client.Object) error
	both   map[string]*sidecartest.Both
	slim   *pods
	told   []string // events
}

// pods are the informer's, which has names only.
type pods struct {
	client.Reader
	mutex sync.Mutex
	all   map[types.NamespacedName]*corev1.Pod
}

func (p *pods) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	o := (&client.ListOptions{}).ApplyOptions(options)
	for _, pod := range p.all {
		if pod.Namespace == o.Namespace {
			list.(*corev1.PodList).Items = append(list.(*corev1.PodList).Items, slimOf(pod))
		}
	}
	return nil
}

func (p *pods) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.all[key] == nil {
		return fmt.Errorf("there is no pod %s", key)
	}
	*object.(*corev1.Pod) = slimOf(p.all[key])
	return nil
}

func slimOf(pod *corev1.Pod) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Labels: pod.Labels, OwnerReferences: pod.OwnerReferences},
		Status:     corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions},
	}
}

// counting counts questions, and may give other answers.
type counting struct {
	Nodes
	mutex    sync.Mutex
	lists    int
	looks    []string
	prefixes map[string]string                             // of namespaces
	list     func(prefix string, list *node.Backups) error // changes what the storage shows
	look     func(name string) error                       // why one cannot be looked into
	during   func()                                        // happens while the storage is listed
	running  map[string]string                             // by pod, the backup that it makes
}

func (n *counting) Report(ctx context.Context, pod *corev1.Pod) (node.Report, error) {
	r, err := n.Nodes.Report(ctx, pod)
	n.mutex.Lock()
	defer n.mutex.Unlock()
	r.Prefix = n.prefixes[pod.Namespace]
	if b := n.running[pod.Name]; b != "" {
		r.BackupRunning, r.Backup = true, &node.Running{Name: b}
	}
	return r, err
}

func (n *counting) Backups(ctx context.Context, pod *corev1.Pod, prefix string) (node.Backups, error) {
	l, err := n.Nodes.Backups(ctx, pod, prefix)
	n.mutex.Lock()
	n.lists++
	during, change := n.during, n.list
	n.mutex.Unlock()
	if during != nil {
		during()
	}
	if err == nil && change != nil {
		err = change(prefix, &l)
	}
	return l, err
}

func (n *counting) Backup(ctx context.Context, pod *corev1.Pod, prefix, name string) (node.Backup, error) {
	n.mutex.Lock()
	n.looks = append(n.looks, name)
	look := n.look
	n.mutex.Unlock()
	if look != nil {
		if err := look(name); err != nil {
			return node.Backup{}, err
		}
	}
	return n.Nodes.Backup(ctx, pod, prefix, name)
}

func newRig(t *testing.T, namespaces ...string) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, clock: start, count: map[string]int{}, both: map[string]*sidecartest.Both{}, slim: &pods{all: map[types.NamespacedName]*corev1.Pod{}}}
	r.asked = &counting{Nodes: sidecar.New(nil), prefixes: map[string]string{}, running: map[string]string{}}
	var mutex sync.Mutex
	counted := func(verb string, object client.Object) error {
		mutex.Lock()
		defer mutex.Unlock()
		r.count[verb]++
		if r.refuse != nil {
			return r.refuse(verb, object)
		}
		return nil
	}
	uids := 0
	r.client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&api.Backup{}).
		WithIndex(&api.Backup{}, prefixIndex, prefixesOf).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				if err := counted("create", o); err != nil {
					return err
				}
				mutex.Lock()
				uids++
				if o.GetUID() == "" {
					o.SetUID(types.UID(fmt.Sprintf("uid-%d", uids)))
				}
				o.SetCreationTimestamp(metav1.NewTime(r.clock))
				mutex.Unlock()
				return c.Create(ctx, o, options...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
				if err := counted("status", o); err != nil {
					return err
				}
				return c.SubResource(sub).Update(ctx, o, options...)
			},
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
				if err := counted("apply", nil); err != nil {
					return err
				}
				return c.Apply(ctx, o, options...)
			},
		}).Build()
	c, err := New(Options{Namespace: "stategraft", Nodes: r.asked, Clock: func() time.Time { return r.clock }})
	if err != nil {
		t.Fatal(err)
	}
	c.log = testr.New(t)
	r.Catalogue = c
	live := interceptor.NewClient(r.client, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if err := counted("get pod", o); err != nil {
			return err
		}
		return c.Get(ctx, key, o, options...)
	}})
	c.world.Store(&world{backups: r.client, configMaps: r.client, namespaces: r.client, slim: r.slim, live: live, writer: r.client,
		tell: func(b *api.Backup, reason, _ string) { r.told = append(r.told, reason+" "+b.Name) }})
	for _, ns := range namespaces {
		r.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{api.LabelInject: api.InjectEnabled}}})
	}
	return r
}

func (r *rig) create(o client.Object) {
	r.t.Helper()
	if err := r.client.Create(context.Background(), o); err != nil {
		r.t.Fatal(err)
	}
}

// nodes starts pods of one StatefulSet, over a storage.
func (r *rig) nodes(namespace string, storage *sidecartest.Storage, names ...string) {
	r.t.Helper()
	for _, name := range names {
		b, err := sidecartest.StartBoth(sidecartest.Address(len(r.both)), sidecartest.Pair{}, sidecartest.Node{Name: name, Storage: storage})
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(b.Close)
		pod := b.Pod(namespace, name)
		pod.Labels = map[string]string{api.LabelInjected: string(workload.KindCassandra)}
		set, _, _ := strings.Cut(name, "-")
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: set, UID: types.UID(namespace + "/" + set), Controller: new(true)}}
		pod.Status.Phase = corev1.PodRunning
		r.create(pod)
		r.both[namespace+"/"+name] = b
		r.slim.all[client.ObjectKeyFromObject(pod)] = pod
	}
}

// round does one, and tells when the next is.
func (r *rig) round(namespace string) time.Duration {
	r.t.Helper()
	r.clock = r.clock.Add(time.Second)
	result, err := r.Reconcile(context.Background(), requestOf(namespace))
	if err != nil {
		r.t.Fatal(err)
	}
	return result.RequeueAfter
}

// rounds does them until nothing is pending.
func (r *rig) rounds(namespace string) (n int) {
	r.t.Helper()
	for n = 1; r.round(namespace) == soon; n++ {
		if n > 100 {
			r.t.Fatal("it never comes to an end")
		}
	}
	return n
}

func (r *rig) backups(namespace string) []api.Backup {
	r.t.Helper()
	var list api.BackupList
	if err := r.client.List(context.Background(), &list, client.InNamespace(namespace)); err != nil {
		r.t.Fatal(err)
	}
	return list.Items
}

func (r *rig) backup(namespace, name string) *api.Backup {
	r.t.Helper()
	b := &api.Backup{}
	if err := r.client.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: name}, b); err != nil {
		r.t.Fatal(err)
	}
	return b
}

// want says which objects there are, as NAME PHASE.
func (r *rig) want(namespace string, want ...string) {
	r.t.Helper()
	got := []string{}
	for _, b := range r.backups(namespace) {
		got = append(got, strings.TrimSpace(b.Name+" "+string(b.Status.Phase)))
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		r.t.Errorf("namespace %s has %q, want %q", namespace, got, want)
	}
}

// remove deletes an object as its controller does, once its data are dealt with.
func (r *rig) remove(namespace, name string) {
	r.t.Helper()
	b := r.backup(namespace, name)
	b.Finalizers = nil
	if err := r.client.Update(context.Background(), b); err != nil {
		r.t.Fatal(err)
	}
	if err := r.client.Delete(context.Background(), b); err != nil {
		r.t.Fatal(err)
	}
	r.deleted(b)
}

func (r *rig) documents(namespace string) []Document {
	r.t.Helper()
	cm := &corev1.ConfigMap{}
	if err := r.client.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: api.ConfigMapCatalogue}, cm); err != nil {
		r.t.Fatal(err)
	}
	for key, text := range cm.Data {
		if !json.Valid([]byte(text)) {
			r.t.Errorf("%s is %s", key, text)
		}
	}
	return Documents(cm)
}

// document is the only one.
func (r *rig) document(namespace string) Document {
	r.t.Helper()
	all := r.documents(namespace)
	if len(all) != 1 {
		r.t.Fatalf("%d documents: %+v", len(all), all)
	}
	return all[0]
}

// put has the storage hold a whole backup of nodes.
func put(s *sidecartest.Storage, name string, ago time.Duration, nodes ...string) {
	for _, n := range nodes {
		s.Put(name, n, sidecartest.Part{Started: start.Add(-ago), Finished: start.Add(-ago + time.Minute), Objects: 5, Bytes: 1 << 20})
	}
}

// begin has it hold one that node has begun.
func begin(s *sidecartest.Storage, name string, ago time.Duration, nodes ...string) {
	for _, n := range nodes {
		s.Put(name, n, sidecartest.Part{Started: start.Add(-ago)})
	}
}
