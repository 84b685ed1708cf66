package simulated

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Witness looks at every version of the Restores, and at what happens on the node,
// and says what must not have happened. It goes by revisions of the API server's
// store, not by clocks: a pod that was created after a Restore had begun to delete
// must not run its database before it is restored; one that slipped in between the
// list of pending pods and that moment must at least never become ready.
type Witness struct {
	// Live reads the Restores of a namespace, past all caches.
	Live func(ctx context.Context, namespace string) ([]api.Restore, error)

	timeline *Timeline

	mu         sync.Mutex
	asked      map[string][]*asked // by namespace
	born       map[types.UID]int64 // revision of a pod's creation, where it is known
	violations map[string][]string
	slipped    map[string]int // databases that began early and never became ready
}

// asked is what is known of a Restore.
type asked struct {
	uid      types.UID
	name, id string
	parallel int32
	pending  map[string]int64 // by pod: the revision that first had it pending
	armed    int64            // the revision that first said that a pod is deleted
	ended    bool             // cancelled or deleted: the way is open again
	phase    api.RestorePhase
}

// NewWitness makes a witness.
func NewWitness(timeline *Timeline, live func(context.Context, string) ([]api.Restore, error)) *Witness {
	return &Witness{Live: live, timeline: timeline, asked: map[string][]*asked{}, born: map[types.UID]int64{},
		violations: map[string][]string{}, slipped: map[string]int{}}
}

// Violations are those of a namespace.
func (w *Witness) Violations(namespace string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.violations[namespace])
}

// Slipped counts the databases of a namespace that began before they were restored,
// as their pods were made before the API server knew the list.
func (w *Witness) Slipped(namespace string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slipped[namespace]
}

func (w *Witness) violated(namespace, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.violations[namespace] = append(w.violations[namespace], text)
	w.timeline.Add(namespace, "VIOLATION: %s", text)
}

// Restore takes a version of a Restore; gone says that it is the last.
func (w *Witness) Restore(r *api.Restore, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	revision, err := strconv.ParseInt(r.ResourceVersion, 10, 64)
	if err != nil {
		return
	}
	a := w.find(r.Namespace, r.UID)
	if a == nil {
		a = &asked{uid: r.UID, name: r.Name, pending: map[string]int64{}}
		w.asked[r.Namespace] = append(w.asked[r.Namespace], a)
	}
	a.id, a.parallel = r.Status.ID, r.Spec.Parallel
	for _, pod := range r.Status.Pending {
		if a.pending[pod] == 0 {
			a.pending[pod] = revision
		}
	}
	// That pods are deleted is written once the API server is known to refuse them.
	stopping := slices.ContainsFunc(r.Status.Pods, func(p api.PodRestore) bool { return p.Phase == api.PodStopping })
	if a.armed == 0 && stopping {
		a.armed = revision
	}
	if gone || opened(r) {
		a.ended = true
	}
	if a.phase != r.Status.Phase || gone {
		w.timeline.Add(r.Namespace, "restore %s: %s, pending %v: %s (revision %d, gone %v)", r.Name, r.Status.Phase, r.Status.Pending, r.Status.Message, revision, gone)
	}
	a.phase = r.Status.Phase
}

// opened tells whether pods may start without it.
func opened(r *api.Restore) bool {
	return r.Spec.Cancel || r.DeletionTimestamp != nil || r.Status.Phase == api.RestoreCancelled
}

func (w *Witness) find(namespace string, uid types.UID) *asked {
	for _, a := range w.asked[namespace] {
		if a.uid == uid {
			return a
		}
	}
	return nil
}

// Created takes a version of a pod. The first counts.
func (w *Witness) Created(pod *corev1.Pod) {
	// One that others have changed already tells another revision than that of its
	// creation.
	if len(pod.ManagedFields) > 1 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if revision, err := strconv.ParseInt(pod.ResourceVersion, 10, 64); err == nil && w.born[pod.UID] == 0 {
		w.born[pod.UID] = revision
	}
}

// Starts is the start of a pod's database.
func (w *Witness) Starts(pod *corev1.Pod, remembers func(string) bool, applying *node.Done) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.asked[pod.Namespace] {
		from, born := a.pending[pod.Name], w.born[pod.UID]
		if from == 0 || remembers(a.id) || w.opened(pod.Namespace, a) {
			continue
		}
		half := applying != nil && applying.ID == a.id && (born == 0 || born > from)
		switch {
		case half:
			w.violated(pod.Namespace, "the database of pod %s started with half of its data replaced, by restore %s", pod.Name, a.name)
		case a.armed > 0 && born > a.armed:
			w.violated(pod.Namespace, "the database of pod %s (revision %d) started without its restore %s, which had begun to delete (revision %d)", pod.Name, born, a.name, a.armed)
		case born > from:
			w.slipped[pod.Namespace]++
			w.timeline.Add(pod.Namespace, "slipped in: the database of pod %s (revision %d) started before the list (revision %d) was in force", pod.Name, born, from)
		}
	}
}

// Ready is a pod that becomes ready.
func (w *Witness) Ready(pod *corev1.Pod, remembers func(string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.asked[pod.Namespace] {
		from := a.pending[pod.Name]
		if from > 0 && w.born[pod.UID] > from && !remembers(a.id) && !w.opened(pod.Namespace, a) {
			w.violated(pod.Namespace, "pod %s (revision %d) became ready without restore %s, which it was pending for (revision %d)", pod.Name, w.born[pod.UID], a.name, from)
		}
	}
}

// Replaces is a restore container that begins to replace data. old are the pods of
// its Restore whose databases still run, others how many replace at the same time.
func (w *Witness) Replaces(namespace, pod, id string, old []string, others int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.asked[namespace] {
		if a.id != id || a.ended {
			continue
		}
		for _, name := range old {
			if a.pending[name] > 0 {
				w.violated(namespace, "pod %s replaced its data while the database of %s still ran on old ones, both of restore %s", pod, name, a.name)
			}
		}
		if a.parallel > 0 && others+1 > int(a.parallel) {
			w.violated(namespace, "%d pods replaced their data at once, restore %s allows %d", others+1, a.name, a.parallel)
		}
	}
}

// opened looks once more, past the watch, whether the Restore still holds its pods.
// With the API server away it goes by what is known.
func (w *Witness) opened(namespace string, a *asked) bool {
	if a.ended {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	live, err := w.Live(ctx, namespace)
	if err != nil {
		return false
	}
	i := slices.IndexFunc(live, func(r api.Restore) bool { return r.UID == a.uid })
	return i < 0 || opened(&live[i])
}
