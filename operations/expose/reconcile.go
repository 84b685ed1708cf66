package expose

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/scope"
	"github.com/stategraft/stategraft/workload"
)

// reconciler looks at one namespace after the other.
type reconciler struct {
	cached   client.Reader // injected pods, StatefulSets, metadata of namespaces
	services client.Reader // ours
	live     client.Reader
	write    *writer
	own      string // Stategraft's namespace
	linger   time.Duration
	now      func() time.Time
	memory   *memory
}

// Reconcile looks at the namespace of the name.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	f, err := r.gather(ctx, request.Name)
	if err != nil || f == nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	p := decide(*f)
	again := p.again
	soon := func(in time.Duration) {
		if in > 0 && (again == 0 || in < again) {
			again = in
		}
	}
	var failed error
	for _, e := range p.expose {
		in, err := r.expose(ctx, e)
		soon(in)
		failed = errors.Join(failed, err)
	}
	for _, s := range p.used {
		failed = errors.Join(failed, r.write.mark(ctx, s, ""))
	}
	for _, s := range p.unused {
		failed = errors.Join(failed, r.write.mark(ctx, s, f.now.UTC().Format(time.RFC3339)))
	}
	for _, old := range p.remove {
		failed = errors.Join(failed, r.write.remove(ctx, old))
	}
	r.memory.forget(request.Name, f.pods)
	count(request.Name, p)
	if failed != nil {
		return reconcile.Result{}, failed
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// gather reads what is known of a namespace; nil where there is none.
func (r *reconciler) gather(ctx context.Context, name string) (*facts, error) {
	namespace := namespaceMeta()
	if err := r.cached.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		forgetMetrics(name)
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	f := &facts{asks: scope.Asks(namespace, r.own) && namespace.DeletionTimestamp == nil, annotations: namespace.Annotations,
		now: r.now(), linger: r.linger, sets: map[string]*appsv1.StatefulSet{}}
	var pods corev1.PodList
	if err := r.cached.List(ctx, &pods, client.InNamespace(name)); err != nil {
		return nil, fmt.Errorf("listing the injected pods of namespace %s: %w", name, err)
	}
	for i := range pods.Items {
		f.pods = append(f.pods, &pods.Items[i])
	}
	var services corev1.ServiceList
	if err := r.services.List(ctx, &services, client.InNamespace(name), client.HasLabels{api.LabelExposed}); err != nil {
		return nil, fmt.Errorf("listing the Services of namespace %s: %w", name, err)
	}
	for i := range services.Items {
		if services.Items[i].DeletionTimestamp == nil {
			f.services = append(f.services, &services.Items[i])
		}
	}
	if len(f.services) == 0 {
		return f, nil // no StatefulSet is asked about
	}
	var sets appsv1.StatefulSetList
	if err := r.cached.List(ctx, &sets, client.InNamespace(name)); err != nil {
		return nil, fmt.Errorf("listing the StatefulSets of namespace %s: %w", name, err)
	}
	for i := range sets.Items {
		f.sets[sets.Items[i].Name] = &sets.Items[i]
	}
	return f, nil
}

// takenAgain is how soon it is tried again where the Service's name is taken.
const takenAgain = time.Minute

// expose makes a pod's Service, or puts it right, and writes its address on the pod. Each
// pod is read once for that: what it is does not change while it lives.
func (r *reconciler) expose(ctx context.Context, e exposed) (again time.Duration, err error) {
	if !r.memory.looked(e.pod) || e.service == nil && r.memory.wants(e.pod) {
		made, err := r.look(ctx, e)
		if err != nil || made {
			return 0, err // the Service's coming is an event of its own
		}
	}
	if e.service == nil {
		if !r.memory.looked(e.pod) {
			return takenAgain, nil // nobody tells when a name is free
		}
		return 0, nil
	}
	address, v6 := addressOf(e.service)
	switch {
	case address == "":
		if left := e.service.CreationTimestamp.Add(patience).Sub(r.now()); left > 0 {
			return left, nil
		}
		r.tellOnce(e.pod, eventNoAddress, fmt.Sprintf("Service %s has had no address for %s: does the cluster give any to Services of type LoadBalancer? A node of Anna's waits for it before it starts; take annotation %s off to start it without",
			e.service.Name, patience, api.AnnotationExpose))
	case v6 && e.pod.Labels[api.LabelInjected] == string(workload.KindAnna):
		r.tellOnce(e.pod, eventNotExposable, fmt.Sprintf("Service %s has the address %s, and Anna cannot take an IPv6 address; have the provider give it an IPv4 address or a name", e.service.Name, address))
	case address != e.pod.Annotations[api.AnnotationPublicAddress]:
		return 0, r.write.address(ctx, e.pod, e.service, address)
	}
	return 0, nil
}

// look reads a pod and compares its Service with what it should be.
func (r *reconciler) look(ctx context.Context, e exposed) (made bool, err error) {
	pod := &corev1.Pod{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(e.pod), pod); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if pod.UID != e.pod.UID {
		return false, nil // the cache will tell
	}
	want, why := serviceOf(pod)
	switch {
	case why != nil:
		if e.own { // of the namespace's annotation it is not meant for each
			r.tellOnce(e.pod, why.event, "the pod gets no Service: "+why.text)
		}
	case want == nil:
		if e.own {
			r.tellOnce(e.pod, eventNotExposable, "the pod gets no Service: nothing in it is called from outside")
		}
	case e.service == nil:
		return r.make(ctx, e.pod, want)
	case stale(e.service, want):
		if err := r.write.repair(ctx, e.service, want); err != nil {
			return false, err
		}
	}
	r.memory.look(e.pod, want != nil)
	return false, nil
}

// make makes a pod's Service. One of the name that is not ours stays as it is.
func (r *reconciler) make(ctx context.Context, pod *corev1.Pod, want *corev1.Service) (bool, error) {
	err := r.write.create(ctx, pod, want)
	if !apierrors.IsAlreadyExists(err) {
		if err == nil {
			r.memory.look(pod, true)
		}
		return err == nil, err
	}
	have := &corev1.Service{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		return false, fmt.Errorf("reading Service %s/%s: %w", want.Namespace, want.Name, err)
	}
	if have.Labels[api.LabelExposed] == pod.Name {
		return true, nil // the cache has not seen it yet
	}
	r.tellOnce(pod, eventTaken, fmt.Sprintf("the pod gets no Service: there is a Service %s that is not Stategraft's (it lacks label %s=%s), and it is left alone; rename or delete it", want.Name, api.LabelExposed, pod.Name))
	return false, nil
}

func (r *reconciler) tellOnce(pod *corev1.Pod, event, text string) {
	if r.memory.news(pod, text) {
		r.write.say(pod, corev1.EventTypeWarning, event, text)
	}
}

// memory is what is known of pods for as long as the process lives. The next one reads
// each once more.
type memory struct {
	mutex sync.Mutex
	known map[types.UID]*known
}

type known struct {
	namespace string
	looked    bool
	wants     bool // a Service
	told      string
}

func newMemory() *memory { return &memory{known: map[types.UID]*known{}} }

func (m *memory) of(pod *corev1.Pod) *known {
	k := m.known[pod.UID]
	if k == nil {
		k = &known{namespace: pod.Namespace}
		m.known[pod.UID] = k
	}
	return k
}

func (m *memory) looked(pod *corev1.Pod) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.of(pod).looked
}

func (m *memory) wants(pod *corev1.Pod) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.of(pod).wants
}

func (m *memory) look(pod *corev1.Pod, wants bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	k := m.of(pod)
	k.looked, k.wants = true, wants
}

// news tells whether a text is another than the last that was told of the pod.
func (m *memory) news(pod *corev1.Pod, text string) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	k := m.of(pod)
	is := k.told != text
	k.told = text
	return is
}

// forget drops the pods of a namespace that are there no more.
func (m *memory) forget(namespace string, pods []*corev1.Pod) {
	there := map[types.UID]bool{}
	for _, pod := range pods {
		there[pod.UID] = true
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for uid, k := range m.known {
		if k.namespace == namespace && !there[uid] {
			delete(m.known, uid)
		}
	}
}
