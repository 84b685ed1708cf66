// Package witness looks on while pods are adopted, and says what must not have happened.
// It is shown every version of every pod, in the order in which the API server wrote
// them, so that no instant escapes it.
//
//	witness.go   the pods, and how many are being adopted
//	pod.go       what is known of one
//	rounds.go    which containers may be added to it, and when
//	follow.go    has it see what the API server writes
package witness

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/operations/adopted"
)

// Limits are what has to be kept. What is 0 is not looked at.
type Limits struct {
	PerWorkload, PerNode, InAll int
	// PerDay is how many rounds a pod may get within Day.
	PerDay int
	Day    time.Duration
	// Counts is for how long a pod that does not come up counts towards its node and in
	// all.
	Counts time.Duration
	// Backoff is how long after a container has ended the second round, the third … may
	// come at the earliest; the last one counts for later ones, too.
	Backoff []time.Duration
	// Off is how far the time that a container says it was added at may be from when it
	// was seen.
	Off time.Duration
}

// ContainersPerPod is how many a pod gets in its life at most.
const ContainersPerPod = 60

// Most is how many were being adopted at one instant, at most.
type Most struct{ PerWorkload, PerNode, InAll int }

// Witness looks on.
type Witness struct {
	limits Limits
	allows func(*corev1.Pod) string

	mutex  sync.Mutex
	pods   map[types.UID]*pod
	all    []*pod // those that are gone, too
	most   Most
	faults []string
	goes   map[types.UID]bool
}

// New makes one. allows tells why a pod must get no container; "" where it may. It is
// asked of each version to which some were added; nil allows all.
func New(limits Limits, allows func(*corev1.Pod) string) *Witness {
	if allows == nil {
		allows = func(*corev1.Pod) string { return "" }
	}
	return &Witness{limits: limits, allows: allows, pods: map[types.UID]*pod{}, goes: map[types.UID]bool{}}
}

// Goes tells that a pod is to be deleted.
func (w *Witness) Goes(uid types.UID) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.goes[uid] = true
}

// Renews tells that each pod of a namespace may get one more round, as what it was given
// has changed.
func (w *Witness) Renews(namespace string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, p := range w.pods {
		if p.last.Namespace == namespace {
			p.renews++
		}
	}
}

// Faults are what must not have happened; none if all was well.
func (w *Witness) Faults() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return append([]string(nil), w.faults...)
}

// Most is how many were being adopted at once so far.
func (w *Witness) Most() Most {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.most
}

// Tally counts pods.
type Tally struct{ Pods, Up, Rounds, Containers, MostRounds, MostContainers int }

// Of counts the pods of a namespace, or of all where it is empty; those that are gone,
// too.
func (w *Witness) Of(namespace string) (t Tally) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, p := range w.all {
		if namespace != "" && p.last.Namespace != namespace {
			continue
		}
		t.Pods++
		if p.number > 0 && Up(p.last) {
			t.Up++
		}
		t.Rounds += len(p.rounds)
		t.Containers += p.number
		t.MostRounds = max(t.MostRounds, len(p.rounds))
		t.MostContainers = max(t.MostContainers, p.number)
	}
	return t
}

// Rounds are when a pod of a name was given containers; of the newest of that name.
func (w *Witness) Rounds(namespace, name string) (at []time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, p := range w.all {
		if p.last.Namespace == namespace && p.last.Name == name {
			at = append([]time.Time(nil), p.rounds...)
		}
	}
	return at
}

func (w *Witness) fault(p *corev1.Pod, format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf("pod %s/%s: ", p.Namespace, p.Name)+fmt.Sprintf(format, args...))
}

// Saw shows it a version of a pod.
func (w *Witness) Saw(object *corev1.Pod, gone bool, at time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	p := w.pods[object.UID]
	if p == nil {
		if gone {
			return
		}
		p = &pod{}
		w.pods[object.UID] = p
		w.all = append(w.all, p)
	}
	if object.DeletionTimestamp != nil && !w.goes[object.UID] {
		w.goes[object.UID] = true // told once
		w.fault(object, "was deleted")
	}
	if gone {
		p.adopting = false
		delete(w.pods, object.UID)
		return
	}
	w.untouched(p, object)
	w.added(p, object, at)
	if p.adopting && Up(object) {
		p.adopting = false
	}
	p.last = object
	w.count(object, at)
}

// count looks at how many are being adopted now.
func (w *Witness) count(by *corev1.Pod, at time.Time) {
	workloads, nodes, inAll := map[string]int{}, map[string]int{}, 0
	for _, p := range w.pods {
		if !p.adopting {
			continue
		}
		workloads[workload(p.last)]++
		if w.limits.Counts > 0 && at.Sub(p.since) >= w.limits.Counts {
			continue
		}
		nodes[p.last.Spec.NodeName]++
		inAll++
	}
	w.over(by, "workload", workload(by), workloads[workload(by)], w.limits.PerWorkload, &w.most.PerWorkload)
	w.over(by, "node", by.Spec.NodeName, nodes[by.Spec.NodeName], w.limits.PerNode, &w.most.PerNode)
	w.over(by, "cluster", "as a whole", inAll, w.limits.InAll, &w.most.InAll)
}

// over tells of more than a limit, once for each number that is the greatest so far.
func (w *Witness) over(by *corev1.Pod, what, which string, n, limit int, most *int) {
	if n <= *most {
		return
	}
	*most = n
	if limit > 0 && n > limit {
		w.fault(by, "with it %d pods of the %s %s are being adopted, at most %d are allowed", n, what, which, limit)
	}
}

// Up tells whether all parts of an adopted pod are: those that go on run, and the one
// that brought them their binary has ended well.
func Up(object *corev1.Pod) bool {
	parts := adopted.Parts(object)
	for _, role := range roles(parts) {
		p := adopted.Newest(parts, role)
		if brings(p) && !p.Done() || !brings(p) && p.State() != adopted.Running {
			return false
		}
	}
	return len(parts) > 0
}
