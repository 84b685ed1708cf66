package adopt

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/scope"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
)

const (
	// settle is how long after a change the pods are looked at: changes come many at once.
	settle = 500 * time.Millisecond
	// calm is how many times longer than a look the next waits for: where pods are very many,
	// some change all the time.
	calm = 10
	// soon is when they are looked at again where something is not known yet.
	soon = time.Second
	// readsPerPass is how many pods are judged at one look; the others are at the next.
	readsPerPass = 40
)

// controller looks at all pods that may be adopted, again and again: how many may be at once
// follows from all of them. Its methods are called from one goroutine.
type controller struct {
	Options
	namespaces client.Reader // metadata of all, from memory
	source     source
	server     server
	events     events.EventRecorder
	decide     func(webhook.Input, patches.Adoption) (webhook.Outcome, []corev1.EphemeralContainer)

	changed  chan struct{} // of one
	memories memories
	nodes    nodes
	pairs    pairs
	alike    templates
	single   single
	bad      bad
	began    bool // pods that ask by themselves were looked for once
}

// Start implements manager.Runnable.
func (c *controller) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("adopt"))
	defer c.source.stop()
	for {
		begun := time.Now()
		again, err := c.pass(ctx)
		took := time.Since(begun)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "running pods are not adopted until this is remedied")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(again):
		case <-c.changed:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(min(max(settle, calm*took), c.Every)):
			}
		}
	}
}

// NeedLeaderElection is so: two would add everything twice.
func (*controller) NeedLeaderElection() bool { return true }

// kick has the pods looked at. It never waits.
func (c *controller) kick() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// pass looks at all pods once, and says when it is to be done again at the latest. Nothing
// is added before all are known.
func (c *controller) pass(ctx context.Context) (again time.Duration, err error) {
	if !c.began {
		namespaces, err := c.server.askers(ctx)
		if err != nil {
			return c.Every, err
		}
		for _, name := range namespaces {
			c.single.add(name)
		}
		c.began = true
	}
	asking, err := c.asking(ctx)
	if err != nil {
		return c.Every, err
	}
	names := map[string]bool{}
	for name := range asking {
		names[name] = true
	}
	known, err := c.source.keep(ctx, names)
	if err != nil || !known {
		return min(soon, c.Every), err
	}
	all := c.survey(ctx, asking)
	left := c.adopt(ctx, asking, all)
	count(all)
	c.forget(asking, all)
	again = c.Every
	if at := earliest(all); !at.IsZero() {
		again = min(again, max(at.Sub(c.Clock()), 10*time.Millisecond))
	}
	if left {
		again = min(again, soon)
	}
	return again, nil
}

// asking are the namespaces with pods to look at: those whose annotation asks for it, those
// with a pod that asks by itself, and those with one that was adopted. Without the label
// nothing is added there.
func (c *controller) asking(ctx context.Context) (map[string]*metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := c.namespaces.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the namespaces: %w", err)
	}
	c.bad.begin()
	defer c.bad.end()
	for _, u := range c.Uncovered() {
		c.tellBad("Pod", u.Pod)
		if u.Pod.Annotations[api.AnnotationAdopt] == api.AdoptRunning {
			c.single.add(u.Pod.Namespace)
		}
	}
	asking := map[string]*metav1.PartialObjectMetadata{}
	for i := range list.Items {
		namespace := &list.Items[i]
		labelled := scope.Asks(namespace, c.Namespace)
		switch {
		case namespace.DeletionTimestamp != nil:
		case labelled:
			c.tellBad("Namespace", namespace)
		default:
			c.tellUnlabelled(namespace)
		}
		asks := labelled && namespace.Annotations[api.AnnotationAdopt] == api.AdoptRunning
		if namespace.DeletionTimestamp == nil && (asks || c.single.has(namespace.Name)) {
			asking[namespace.Name] = namespace
		}
	}
	return asking, nil
}

// survey finds the pods that were adopted or are to be, and what is to be done with each.
func (c *controller) survey(ctx context.Context, asking map[string]*metav1.PartialObjectMetadata) (all []*candidate) {
	for name, namespace := range asking {
		pair, read, said, config := "", false, hashOf(namespace), c.Config()
		for _, pod := range c.source.pods(name) {
			if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
				continue
			}
			memory := c.memories.of(pod)
			pod = memory.newest(pod)
			facts := Of(pod)
			if facts.Labelled && len(facts.Parts) == 0 && created(pod) {
				continue // injected
			}
			facts.Asked = Asks(namespace, pod) && scope.Asks(namespace, c.Namespace)
			if !facts.Asked && len(facts.Parts) == 0 {
				continue
			}
			if !read && len(facts.Parts) > 0 {
				pair, _ = c.pair(ctx, name) // whose error is logged; with what is not known nothing is compared
				read = true
			}
			facts.Pair, facts.Now, facts.PerDay, facts.Backoff = pair, c.Clock(), c.PerDay, c.Backoff
			by := memory.fingerprint(pod, said, len(facts.Parts), config)
			if memory.judged != nil && memory.judged.by == by {
				facts.Digests = memory.judged.digests
			}
			one := &candidate{pod: pod, namespace: namespace, memory: memory, by: by, facts: facts, step: Plan(facts)}
			one.reason, one.text = one.step.Reason, one.step.Text
			all = append(all, one)
		}
	}
	return inTurn(all)
}

// adopt does what is to be done, as far as there are places for it. left says whether pods
// are left that were not come to.
func (c *controller) adopt(ctx context.Context, asking map[string]*metav1.PartialObjectMetadata, all []*candidate) (left bool) {
	slots := &Slots{PerNode: c.PerNode, InAll: c.InAll, Patience: c.Patience, Now: c.Clock()}
	for _, one := range all {
		if b := one.busy(); b != nil {
			slots.Busy = append(slots.Busy, *b)
		}
	}
	turn := &turn{slots: slots, reads: readsPerPass, restoring: map[string]map[string]string{}}
	for _, one := range all {
		if ctx.Err() != nil {
			return false
		}
		switch one.step.Do {
		case DoLabel, DoUnlabel:
			c.label(ctx, one)
		case DoAdd:
			c.add(ctx, turn, one)
		default:
			if one.step.State == StateWaiting && one.reason == "" {
				c.compare(ctx, turn, one)
			}
		}
		c.tell(one)
	}
	return turn.left
}

// forget drops what is known of pods that are not there any more, and of namespaces in which
// no pod asks by itself any more.
func (c *controller) forget(asking map[string]*metav1.PartialObjectMetadata, all []*candidate) {
	there, single := map[types.UID]bool{}, map[string]bool{}
	for _, one := range all {
		there[one.pod.UID] = true
		if len(one.facts.Parts) > 0 || one.pod.Annotations[api.AnnotationAdopt] == api.AdoptRunning {
			single[one.pod.Namespace] = true
		}
	}
	c.memories.keep(there)
	c.alike.keep(c.Clock())
	c.single.keep(asking, single)
}

// single are the namespaces in which a pod asks by itself, or was adopted. Informers tell of
// them, so it is guarded.
type single struct {
	mutex sync.Mutex
	names map[string]bool
}

func (s *single) add(namespace string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[namespace] = true
}

func (s *single) has(namespace string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.names[namespace]
}

// keep drops of the namespaces that were looked at those that are not among the others.
func (s *single) keep(looked map[string]*metav1.PartialObjectMetadata, still map[string]bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for name := range s.names {
		if looked[name] != nil && !still[name] {
			delete(s.names, name)
		}
	}
}
