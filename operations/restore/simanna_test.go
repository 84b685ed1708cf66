package restore

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/patches"
)

// annaPod is a pod of the memory tier.
func annaPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := factPod(name)
	pod.Labels[api.LabelInjected] = "anna"
	pod.Spec.Containers = pod.Spec.Containers[:1]
	pod.Spec.Containers[0] = corev1.Container{Name: "memory-container", Image: "anna"}
	pod.Spec.InitContainers = []corev1.Container{{
		Name: patches.ContainerAgent, Ports: []corev1.ContainerPort{{Name: node.PortName, ContainerPort: node.DefaultPort}},
		Env: []corev1.EnvVar{{Name: kvs.EnvRole, Value: "memory"}, {Name: kvs.EnvCluster, Value: "hydro"}},
	}}
	for _, f := range change {
		f(pod)
	}
	return pod
}

// annaSim is what nodes of Anna hold. A part of the backup is written by one of them, in
// as many steps as there are nodes: each puts what belongs to one of them there.
type annaSim struct {
	parts   []string
	held    map[string]map[string]bool // by process, which parts
	replays map[string]*node.Replay    // by pod
	sources map[string][]string
	posted  int
	mu      sync.Mutex
}

func newAnnaSim(seed uint64) *sim {
	s := newSim(seed)
	s.ordered = false
	s.anna = &annaSim{held: map[string]map[string]bool{}, replays: map[string]*node.Replay{}, sources: map[string][]string{}}
	for i := range 1 + s.rand.IntN(5) {
		s.anna.parts = append(s.anna.parts, "old-"+strconv.Itoa(i))
	}
	for name := range s.pods_ {
		s.create(name, false)
		s.pods_[name].CreationTimestamp = metav1.NewTime(s.now.Add(-1e9 * 3600))
		s.start(s.pods_[name])
	}
	return s
}

// backup is one of other nodes than there are now.
func (a *annaSim) backup(b *node.Backup) *node.Backup {
	was := factBackup(b.Name, a.parts...)
	for i := range was.Members {
		was.Members[i].Keys = 10
	}
	return was
}

func (a *annaSim) told(pod string) *node.Replay {
	if r := a.replays[pod]; r != nil {
		told := *r
		return &told
	}
	return nil
}

// created forgets what was in the pod before.
func (a *annaSim) created(pod string) { delete(a.replays, pod); delete(a.sources, pod) }

func isUp(pod *corev1.Pod) bool { return len(pod.Status.ContainerStatuses) > 0 }

// startNode has the process of a pod start, with nothing in it.
func (s *sim) startNode(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "memory-container", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if r := s.restore_; r != nil && slices.Contains(r.Status.Pending, pod.Name) && restoreID(pod) == r.Status.ID && !s.leaky {
		for _, other := range s.pods_ {
			if isUp(other) && restoreID(other) != r.Status.ID {
				s.wrong("%s starts while %s runs with old data", pod.Name, other.Name)
			}
		}
	}
	if id := restoreID(pod); id != "" {
		sources := s.restore_.Status.Pod(pod.Name).Sources() // the container had it of the order
		s.anna.replays[pod.Name] = &node.Replay{ID: id, Phase: node.ReplayWaiting, Total: int64(10 * len(sources))}
		s.anna.sources[pod.Name] = sources
		return
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

// runsNode takes the sidecar of a pod that runs a step further.
func (s *sim) runsNode(pod *corev1.Pod) bool {
	if !isUp(pod) {
		return false
	}
	r := s.anna.replays[pod.Name]
	for i := range s.replicas { // it waits for all
		other := s.pods_["cas-"+strconv.Itoa(i)]
		if other == nil || !isUp(other) || other.DeletionTimestamp != nil {
			return true
		}
	}
	if r == nil || r.Phase == node.ReplayDone {
		return true
	}
	if step := int(r.Keys); step < s.replicas && len(s.anna.sources[pod.Name]) > 0 {
		at := process(s.pods_["cas-"+strconv.Itoa(step)])
		if s.anna.held[at] == nil {
			s.anna.held[at] = map[string]bool{}
		}
		for _, part := range s.anna.sources[pod.Name] {
			s.anna.held[at][part] = true
		}
		r.Phase = node.ReplayReplaying
		r.Keys++
		return true
	}
	s.logf("%s has written %v for %s", pod.Name, s.anna.sources[pod.Name], r.ID)
	r.Phase, r.Keys, r.Ended = node.ReplayDone, r.Total, s.now
	if restoreID(pod) != "" && strings.HasPrefix(r.ID, restoreID(pod)) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		pod.ResourceVersion = s.bump()
	}
	return true
}

// killNode has a database die, and start again in its pod.
func (s *sim) killNode() {
	pod := s.pods_["cas-"+strconv.Itoa(s.rand.IntN(s.replicas))]
	if pod == nil || !isUp(pod) || s.restore_ == nil || s.restore_.Status.Phase.Final() {
		return
	}
	s.logf("by hand: kill the process of %s", pod.Name)
	pod.Status.ContainerStatuses[0].RestartCount++
	pod.ResourceVersion = s.bump()
}

// Replay implements Replayer.
func (s *sim) Replay(_ context.Context, pod *corev1.Pod, request node.ReplayRequest) (node.Replay, error) {
	s.anna.mu.Lock() // many are asked at once
	defer s.anna.mu.Unlock()
	is := s.pods_[pod.Name]
	if is == nil || is.UID != pod.UID || !isUp(is) {
		return node.Replay{}, sidecar.ErrUnreachable
	}
	r := s.anna.replays[pod.Name]
	switch {
	case r != nil && r.ID == request.ID:
		return *r, nil
	case r != nil && r.Phase != node.ReplayDone:
		return *r, sidecar.ErrReplaying
	}
	s.anna.posted++
	s.anna.sources[pod.Name] = request.Sources
	s.anna.replays[pod.Name] = &node.Replay{ID: request.ID, Backup: request.Backup, Phase: node.ReplayStaging, Total: int64(10 * len(request.Sources))}
	return *s.anna.replays[pod.Name], nil
}

// lost are the parts that are not where they should be.
func (s *sim) lost() (lacks []string) {
	for _, name := range slices.Sorted(maps.Keys(s.pods_)) {
		for _, part := range s.anna.parts {
			if !s.anna.held[process(s.pods_[name])][part] {
				lacks = append(lacks, part+" on "+name)
			}
		}
	}
	return lacks
}
