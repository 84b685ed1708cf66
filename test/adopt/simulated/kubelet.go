package simulated

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// tick is how often the kubelet looks at its pods.
const tick = 20 * time.Millisecond

// Kubelet runs the pods of all nodes.
type Kubelet struct {
	client     kubernetes.Interface
	references *references
	cancel     context.CancelFunc
	running    sync.WaitGroup

	mutex     sync.Mutex
	nodes     []string
	pods      map[types.UID]*pod
	addresses int
	played    map[string]Played // by namespace
}

// Played is how the pods of a namespace are run.
type Played struct {
	// Node is where a pod is bound to; it is left alone where it is empty.
	Node func(*corev1.Pod) string
	// Script is for the ephemeral containers; nil starts them a little later, for ever.
	Script Script
	// Ready tells whether a pod is ready; nil where all are.
	Ready func(*corev1.Pod) bool
	// Clock is the time that it writes; nil for the usual one.
	Clock Clock
}

// Start starts a kubelet without nodes.
func Start(ctx context.Context, client kubernetes.Interface) *Kubelet {
	k := &Kubelet{client: client, references: &references{client: client, known: map[string]keys{}},
		pods: map[types.UID]*pod{}, played: map[string]Played{}}
	ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	k.running.Go(func() { k.watch(ctx) })
	k.running.Go(func() { k.run(ctx) })
	k.running.Go(func() { k.live(ctx) })
	return k
}

// Stop ends it.
func (k *Kubelet) Stop() {
	k.cancel()
	k.running.Wait()
}

// Play has the pods of a namespace run so, from now on.
func (k *Kubelet) Play(namespace string, p Played) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.played[namespace] = p
}

// usual starts a container after a time that differs from one to the other.
func usual(pod *corev1.Pod, c *corev1.EphemeralContainer) Play {
	spread := 0
	for _, b := range []byte(string(pod.UID) + c.Name) {
		spread = (spread*31 + int(b)) % 200
	}
	return Play{After: time.Duration(50+spread) * time.Millisecond}
}

// watch keeps up with the pods.
func (k *Kubelet) watch(ctx context.Context) {
	pods := k.client.CoreV1().Pods("")
	for ctx.Err() == nil {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(tick):
			}
			continue
		}
		k.mutex.Lock()
		gone := k.pods
		k.pods = map[types.UID]*pod{}
		for i := range list.Items {
			o := &list.Items[i]
			if known := gone[o.UID]; known != nil {
				k.pods[o.UID] = known
			}
			k.see(o)
		}
		k.mutex.Unlock()
		w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			continue
		}
		for event := range w.ResultChan() {
			if o, ok := event.Object.(*corev1.Pod); ok {
				k.mutex.Lock()
				if event.Type == watch.Deleted {
					delete(k.pods, o.UID)
				} else {
					k.see(o)
				}
				k.mutex.Unlock()
			}
		}
		w.Stop()
	}
}

// see takes what the API server says of a pod. The lock is held.
func (k *Kubelet) see(o *corev1.Pod) {
	p := k.pods[o.UID]
	if p == nil {
		k.addresses++
		p = &pod{grafted: map[string]*container{}, address: fmt.Sprintf("127.%d.%d.%d", 30+k.addresses>>16, k.addresses>>8&255, k.addresses&255)}
		k.pods[o.UID] = p
	}
	p.object = o
}

func (k *Kubelet) run(ctx context.Context) {
	const atOnce = 8
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(tick):
		}
		var all sync.WaitGroup
		turns := make(chan struct{}, atOnce)
		for _, write := range k.sync(ctx, time.Now()) {
			turns <- struct{}{}
			all.Go(func() {
				defer func() { <-turns }()
				write(ctx)
			})
		}
		all.Wait()
	}
}

// sync goes on with all pods, and answers what is to be written.
func (k *Kubelet) sync(ctx context.Context, now time.Time) (writes []func(context.Context)) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, p := range k.pods {
		played, ok := k.played[p.object.Namespace]
		if !ok {
			continue
		}
		if p.object.Spec.NodeName == "" {
			if w := k.bind(p.object, played); w != nil {
				writes = append(writes, w)
			}
			continue
		}
		if p.from.IsZero() {
			p.from = now
		}
		p.ready = played.Ready == nil || played.Ready(p.object)
		p.advance(now, k.script(ctx, played))
		if w := k.report(p, played.Clock); w != nil {
			writes = append(writes, w)
		}
	}
	return writes
}

// script is that of a namespace, with the Secrets and ConfigMaps that are not there.
func (k *Kubelet) script(ctx context.Context, played Played) Script {
	return func(pod *corev1.Pod, c *corev1.EphemeralContainer) Play {
		script := played.Script
		if script == nil {
			script = usual
		}
		play := script(pod, c)
		if known := k.pods[pod.UID].grafted[c.Name]; play.Waits == "" && known.from.IsZero() && k.references.missing(ctx, pod.Namespace, c.Env) {
			play.Waits = configError
		}
		return play
	}
}
