package cycle

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// memory is what is known for as long as the process lives. The next one knows less, and
// waits for longer.
type memory struct {
	mutex sync.Mutex
	known map[key]*known
	begun map[types.UID]begun        // what was written on a pod, until the cache has it
	shown map[string]map[string]bool // workloads with a series, by namespace
	said  map[[2]string]bool         // ConfigMaps that may not be read
	alone map[string]bool            // digests of ConfigMaps by which keys are on disk alone
}

type key struct{ namespace, kind, name string }

type known struct {
	evicted *evicted
	calm    time.Time // since when all pods are Ready; zero while one is not
	told    string
}

type begun struct {
	namespace, digest string
}

func newMemory() *memory {
	return &memory{known: map[key]*known{}, begun: map[types.UID]begun{}, shown: map[string]map[string]bool{}, said: map[[2]string]bool{}, alone: map[string]bool{}}
}

func keyOf(g *group) key {
	return key{g.members[0].pod.Namespace, g.owner.kind, g.name()}
}

func (m *memory) get(g *group) *known {
	k := m.known[keyOf(g)]
	if k == nil {
		k = &known{}
		m.known[keyOf(g)] = k
	}
	return k
}

// of tells which pod of a workload was evicted last, and for how long all have been Ready.
func (m *memory) of(g *group, now time.Time) (*evicted, time.Duration) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	k := m.get(g)
	calm := !g.incomplete(k.evicted)
	for i := range g.members {
		calm = calm && ready(g.members[i].pod)
	}
	switch {
	case !calm:
		k.calm = time.Time{}
		return k.evicted, 0
	case k.calm.IsZero():
		k.calm = now
	}
	k.evicted = nil
	return nil, now.Sub(k.calm)
}

func (m *memory) evict(g *group, pod *corev1.Pod, now time.Time) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	k := m.get(g)
	k.evicted = &evicted{uid: string(pod.UID), count: len(g.members), configMap: configMapOf(pod), database: pod.Labels[api.LabelInjected], at: now}
	k.calm = time.Time{}
}

// away are the evicted pods of workloads that have no pod at all now: no group tells of them.
func (m *memory) away(namespace string, groups []*group, now time.Time) (gone []*evicted) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	there := map[key]bool{}
	for _, g := range groups {
		there[keyOf(g)] = true
	}
	for k, v := range m.known {
		if k.namespace == namespace && !there[k] && v.evicted != nil && now.Sub(v.evicted.at) < longestAway {
			gone = append(gone, v.evicted)
		}
	}
	return gone
}

// news tells whether a text is another than the last of the workload.
func (m *memory) news(g *group, text string) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	k := m.get(g)
	is := k.told != text
	k.told = text
	return is
}

// once tells whether a ConfigMap is new here.
func (m *memory) once(namespace, name string) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	key := [2]string{namespace, name}
	is := !m.said[key]
	m.said[key] = true
	return is
}

// onDiskAlone tells of what a pod was started with and of what is there now whether keys are
// on disk alone by either: a copy in memory has only what was written since there is to be one.
func (m *memory) onDiskAlone(started, current string, now bool) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if now {
		m.alone[current] = true
	}
	return now || m.alone[started]
}

func (m *memory) started(pod *corev1.Pod) string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.begun[pod.UID].digest
}

func (m *memory) start(pod *corev1.Pod, digest string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.begun[pod.UID] = begun{pod.Namespace, digest}
}

// forget drops what is not of these workloads any more.
func (m *memory) forget(namespace string, groups []*group) {
	workloads, pods := map[key]bool{}, map[types.UID]bool{}
	for _, g := range groups {
		workloads[keyOf(g)] = true
		for i := range g.members {
			pods[g.members[i].pod.UID] = startedWith(g.members[i].pod) == ""
		}
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for k, v := range m.known {
		if k.namespace == namespace && !workloads[k] && v.evicted == nil {
			delete(m.known, k)
		}
	}
	for uid, b := range m.begun {
		if b.namespace == namespace && !pods[uid] {
			delete(m.begun, uid)
		}
	}
}

// figures sets the series of a namespace.
func (m *memory) figures(namespace string, outdated map[string]int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for workload := range m.shown[namespace] {
		if _, ok := outdated[workload]; !ok {
			outdatedPods.DeleteLabelValues(namespace, workload)
		}
	}
	delete(m.shown, namespace)
	for workload, n := range outdated {
		outdatedPods.WithLabelValues(namespace, workload).Set(float64(n))
		if m.shown[namespace] == nil {
			m.shown[namespace] = map[string]bool{}
		}
		m.shown[namespace][workload] = true
	}
}
