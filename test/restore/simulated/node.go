package simulated

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

const (
	nodeName    = "simulated"
	hostAddress = "127.0.0.1"
	// tick is how often the kubelet looks at its pods.
	tick = 15 * time.Millisecond
	// renewal is how often it says that it is alive. The control plane takes it for
	// dead after 50 seconds.
	renewal = 5 * time.Second
)

// Node is the simulated node.
type Node struct {
	Timeline *Timeline
	Witness  *Witness

	client  kubernetes.Interface
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu         sync.Mutex
	bound      map[types.UID]*corev1.Pod // what the API server says of the pods, bound or not
	random     *rand.Rand
	pods       map[types.UID]*pod
	inUse      map[string]types.UID // by volume
	volumes    map[string]*Volume
	catalogues map[string]*Catalogue
	written    map[types.UID]string // the status of each pod as it was written last
	addresses  int
	slow       map[string]time.Duration // see Slow
	linger     map[string]bool          // see Linger
	stalled    time.Time                // until then the kubelet is not there
	authority  map[string]*pair
}

// Start starts the node on a control plane.
func Start(ctx context.Context, client kubernetes.Interface, witness *Witness, timeline *Timeline, seed uint64) (*Node, error) {
	n := &Node{client: client, Timeline: timeline, Witness: witness,
		random: rand.New(rand.NewPCG(seed, 1)), bound: map[types.UID]*corev1.Pod{}, pods: map[types.UID]*pod{}, inUse: map[string]types.UID{},
		volumes: map[string]*Volume{}, catalogues: map[string]*Catalogue{}, written: map[types.UID]string{}, authority: map[string]*pair{},
		slow: map[string]time.Duration{}, linger: map[string]bool{}}
	if err := n.register(ctx); err != nil {
		return nil, err
	}
	ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	n.running.Go(func() { n.watch(ctx) })
	n.running.Go(func() { n.provision(ctx) })
	n.running.Go(func() { n.run(ctx) })
	n.running.Go(func() { n.live(ctx) })
	return n, nil
}

// watch keeps up with the pods, and shows new ones to the witness, also those that are
// not bound yet.
func (n *Node) watch(ctx context.Context) {
	pods := n.client.CoreV1().Pods("")
	one := func(pod *corev1.Pod, gone bool) {
		n.Witness.Created(pod)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.bound[pod.UID] = pod; gone {
			delete(n.bound, pod.UID)
		}
	}
	follow(ctx, followed[*corev1.Pod]{
		list: func(ctx context.Context, o metav1.ListOptions) ([]*corev1.Pod, string, error) {
			list, err := pods.List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return pointers(list.Items), list.ResourceVersion, nil
		},
		watch: pods.Watch, one: one,
		all: func(all []*corev1.Pod) {
			n.mu.Lock()
			clear(n.bound)
			n.mu.Unlock()
			for _, pod := range all {
				one(pod, false)
			}
		},
	})
}

// Stop ends the node.
func (n *Node) Stop() {
	n.cancel()
	n.running.Wait()
	for _, p := range n.pods {
		p.service.stop()
	}
}

func (n *Node) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(tick):
		}
		for _, w := range n.sync(time.Now()) {
			w(ctx)
		}
	}
}

// sync goes on with all pods, and answers what is to be written.
func (n *Node) sync(now time.Time) (writes []func(context.Context)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Before(n.stalled) { // containers go on without the kubelet
		for _, p := range n.pods {
			if _, r := p.restoring(); r != nil {
				n.replaces(p, r, func() { _, _ = r.advance(now) }) // its end is seen later
			}
		}
		return nil
	}
	there := map[types.UID]bool{}
	for _, object := range n.bound {
		if object.Spec.NodeName != nodeName {
			continue
		}
		there[object.UID] = true
		if p := n.pods[object.UID]; p != nil {
			p.object = object
		} else {
			n.admit(object, now)
		}
	}
	for uid, p := range n.pods {
		if !there[uid] {
			n.drop(uid, p)
			continue
		}
		n.advance(p, now)
		if w := n.report(p, now); w != nil {
			writes = append(writes, w)
		}
	}
	return writes
}

// admit takes a new pod, unless its volume is still in use.
func (n *Node) admit(object *corev1.Pod, now time.Time) {
	claim, err := claimOf(object)
	if err != nil {
		return // no database
	}
	key := object.Namespace + "/" + claim
	if _, used := n.inUse[key]; used {
		return
	}
	if n.volumes[key] == nil {
		n.volumes[key] = NewVolume("new")
	}
	n.addresses++
	p := &pod{object: object, uid: object.UID, volume: n.volumes[key], backups: n.catalogue(object.Namespace),
		pace: pace{n.random}, address: fmt.Sprintf("127.%d.%d.%d", 10+n.addresses>>16, n.addresses>>8&255, n.addresses&255)}
	p.begins = func() time.Duration { return n.begins(p) }
	p.read(now)
	p.service = n.serve(p)
	n.pods[object.UID], n.inUse[key] = p, object.UID
	n.Timeline.Add(object.Namespace, "node: pod %s %s came, %s", object.Name, short(object.UID), how(object))
}

// drop forgets a pod that is no longer there; what ran in it is killed.
func (n *Node) drop(uid types.UID, p *pod) {
	p.service.stop()
	delete(n.pods, uid)
	delete(n.written, uid)
	for key, by := range n.inUse {
		if by == uid {
			delete(n.inUse, key)
		}
	}
	n.Timeline.Add(p.object.Namespace, "node: pod %s %s is gone", p.object.Name, short(uid))
}

// advance goes on with a pod.
func (n *Node) advance(p *pod, now time.Time) {
	if _, r := p.restoring(); r != nil {
		n.replaces(p, r, func() { p.advance(now) })
		return
	}
	p.advance(now)
}

// replaces goes on with a run, and shows the witness that it begins to replace.
func (n *Node) replaces(p *pod, r *run, goOn func()) {
	before := r.phase
	goOn()
	if before == node.Replacing || r.phase != node.Replacing {
		return
	}
	var old []string
	others := 0
	for _, other := range n.pods {
		if other == p || other.object.Namespace != p.object.Namespace {
			continue
		}
		if _, run := other.restoring(); run != nil && run.order.ID == r.order.ID && (run.phase == node.Replacing || run.phase == node.Verifying) {
			others++
		}
		if other.runs() && !other.volume.Remembers(r.order.ID) {
			old = append(old, other.object.Name)
		}
	}
	n.Witness.Replaces(p.object.Namespace, p.object.Name, r.order.ID, old, others)
}

// begins is the start of a database. It answers how much later than usual it is ready.
func (n *Node) begins(p *pod) time.Duration {
	v := p.volume
	n.Timeline.Add(p.object.Namespace, "node: the database of pod %s %s starts with %q, half replaced: %v", p.object.Name, short(p.uid), v.Data, v.Applying != nil)
	n.Witness.Starts(p.object, v.Remembers, v.Applying)
	return n.slow[p.object.Namespace]
}

func short(uid types.UID) string { return string(uid)[:4] }

// how tells what a pod was made with.
func how(object *corev1.Pod) string {
	for i := range object.Spec.InitContainers {
		if c := &object.Spec.InitContainers[i]; c.Name == patches.ContainerRestore {
			return "to restore " + OrderOf(c, object.Name).ID
		}
	}
	if object.Labels[api.LabelInjected] == "" {
		return "not injected"
	}
	return "as usual"
}
