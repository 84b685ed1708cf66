package backup

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/claims"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/patches"
)

// notes are what is kept in memory of a Backup. They are about how often and when,
// never about what: that is in the object. A controller that starts anew has none.
type notes struct {
	uid     types.UID
	pods    map[string]*note
	latest  *api.Backup     // as it was written last
	past    map[string]bool // resource versions that our own writing has put an end to
	wrote   time.Time       // when the status was written last
	again   time.Time       // when one that waits is judged again
	judged  state           // what it asked for then
	pause   time.Duration
	cluster claims.Cluster // whose turn was asked for
	turn    bool           // it has it
	asked   bool           // for a turn
	recheck time.Time      // when the storage is asked again, while pods upload
	doubt                  // why it could not tell
	round   int            // of the pods that are asked for it
	renewed time.Time      // when the words of what is in the way were written anew
	held    string         // why the deletion waited last
	began   bool           // this process has looked whether one before it deleted data
	lasts   time.Time      // until when a deletion may go on that nobody waits for
}

// state is what somebody else may have changed.
type state struct {
	generation int64
	deleted    bool
}

// doubt is why it is not known what the storage has.
type doubt struct {
	unknown   string // why the storage could not tell
	unreached bool   // as no sidecar answered
	nobody    bool   // as there is no pod of the cluster
}

// note is what is kept of a pod.
type note struct {
	uid      types.UID
	pod      *corev1.Pod // what it takes to ask it
	version  string      // the resourceVersion of the informer when it was read
	read     time.Time
	since    time.Time // when it was absent or silent first, and has been since
	absent   bool
	leaving  bool   // it is being deleted
	why      string // it is silent
	stale    bool   // it did not answer since it was read: its address may be another
	due      time.Time
	pause    time.Duration
	try      int32  // its sidecar was asked for
	failure  string // of that asking
	busy     bool   // that was for something else that the sidecar does
	discards int    // that were refused, one after another
	refusal  string // the last of them
	blamed   int32  // the try of which the storage was asked why
	given    bool   // when its sidecar had given up
	blame    trouble
	refused  time.Time // since when its storage refuses it
}

// book are the notes of all Backups.
type book struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*notes
}

func newBook() *book { return &book{all: map[types.NamespacedName]*notes{}} }

// of are the notes of a Backup. Only who reconciles it touches them.
func (k *book) of(at types.NamespacedName, uid types.UID) *notes {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.all[at]
	if n == nil || n.uid != uid && uid != "" {
		n = &notes{uid: uid, pods: map[string]*note{}, past: map[string]bool{}}
		k.all[at] = n
	}
	return n
}

// find are the notes of a Backup, if there are any.
func (k *book) find(at types.NamespacedName) *notes {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all[at]
}

func (k *book) forget(at types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, at)
}

func (n *notes) pod(name string) *note {
	if n.pods[name] == nil {
		n.pods[name] = &note{}
	}
	return n.pods[name]
}

// newest is the object as it is known to be: the informer may not have heard yet of
// what was written a moment ago.
func (n *notes) newest(b *api.Backup) *api.Backup {
	if n.latest != nil && n.past[b.ResourceVersion] {
		return n.latest.DeepCopy()
	}
	n.latest, n.past = nil, map[string]bool{}
	return b
}

// written keeps what was written over a version.
func (n *notes) written(version string, b *api.Backup) {
	n.past[version] = true
	n.latest = b.DeepCopy()
}

const (
	quickest = time.Second
	slowest  = 15 * time.Second
)

// later puts a pod's next asking off, by longer each time.
func (p *note) later(now time.Time) {
	p.pause = min(max(p.pause*3/2, quickest), slowest)
	p.due = now.Add(p.pause)
}

// soon has a pod asked again in a moment.
func (p *note) soon(now time.Time) { p.pause, p.due = 0, now.Add(quickest) }

// answers notes that a pod does.
func (p *note) answers() { p.since, p.absent, p.why, p.stale = time.Time{}, false, "", false }

// vanished notes that the API server has no such pod.
func (p *note) vanished(now time.Time) {
	p.pod, p.stale = nil, false
	p.misses(true, "", now)
}

// misses notes that a pod is not there, or does not answer.
func (p *note) misses(absent bool, why string, now time.Time) {
	if p.since.IsZero() || p.absent != absent {
		p.since = now
	}
	p.absent, p.why = absent, why
}

// slim keeps of a pod what it takes to ask it.
func slim(pod *corev1.Pod) *corev1.Pod {
	pod = adopted.View(pod)
	kept := &corev1.Pod{}
	kept.Namespace, kept.Name, kept.UID = pod.Namespace, pod.Name, pod.UID
	kept.Labels = map[string]string{api.LabelInjected: pod.Labels[api.LabelInjected]}
	if v, ok := pod.Labels[api.LabelInject]; ok {
		kept.Labels[api.LabelInject] = v
	}
	kept.Status.PodIP = pod.Status.PodIP
	kept.Spec.Containers, kept.Status.ContainerStatuses = slimContainers(pod.Spec.Containers, pod.Status.ContainerStatuses)
	kept.Spec.InitContainers, kept.Status.InitContainerStatuses = slimContainers(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	kept.Spec.EphemeralContainers = adopted.Stubs(pod, patches.RoleAgent, patches.RoleMedusa) // for their names
	return kept
}

func slimContainers(all []corev1.Container, states []corev1.ContainerStatus) (containers []corev1.Container, statuses []corev1.ContainerStatus) {
	ours := func(name string) bool {
		return name == patches.ContainerMedusa || name == patches.ContainerRestore || name == patches.ContainerAgent
	}
	for _, c := range all {
		if !ours(c.Name) {
			continue
		}
		kept := corev1.Container{Name: c.Name, Ports: c.Ports}
		for _, v := range c.Env {
			if v.Name == kvs.EnvRole || v.Name == kvs.EnvCluster {
				kept.Env = append(kept.Env, v)
			}
		}
		for _, m := range c.VolumeMounts {
			if m.MountPath == patches.DirGRPCTLS {
				kept.VolumeMounts = append(kept.VolumeMounts, m)
			}
		}
		containers = append(containers, kept)
	}
	for _, s := range states {
		if ours(s.Name) {
			statuses = append(statuses, corev1.ContainerStatus{Name: s.Name, State: s.State})
		}
	}
	return containers, statuses
}
