package coverage

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// record is what is kept of a pod that was judged.
type record struct {
	uid    types.UID
	asked  uint64     // fingerprint of what the pod's own labels and annotations say
	reason string     // empty where nothing is missing
	pod    *Uncovered // nil where nothing is missing
}

// state is what the metrics are made of: the pods of labelled namespaces that
// have no label of ours, and how many have one.
type state struct {
	mu       sync.Mutex
	records  map[types.NamespacedName]record
	injected map[string]int // by kind
	leading  bool
}

func newState() *state {
	return &state{records: map[types.NamespacedName]record{}, injected: map[string]int{}}
}

// known tells whether the very pod was judged already, by what it says now.
func (s *state) known(pod types.NamespacedName, uid types.UID, asked uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[pod]
	return ok && r.uid == uid && r.asked == asked
}

// knows tells whether anything is kept under the name.
func (s *state) knows(pod types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.records[pod]
	return ok
}

// put takes over what came out. It answers whether that is news of this pod: the
// same reason is none.
func (s *state) put(pod types.NamespacedName, r record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.records[pod]
	s.records[pod] = r
	return before.uid != r.uid || before.reason != r.reason
}

func (s *state) forget(pod types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, pod)
}

// in lists the pods of a namespace that are kept.
func (s *state) in(namespace string) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pods []types.NamespacedName
	for pod := range s.records {
		if pod.Namespace == namespace {
			pods = append(pods, pod)
		}
	}
	return pods
}

// count adds to the injected pods of a kind. The label is the user's to write,
// so other kinds than the known ones are not counted.
func (s *state) count(kind string, n int) {
	if !slices.Contains(kinds, kind) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.injected[kind] += n
}

// lead marks this process as the one that works.
func (s *state) lead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading = true
}

// kinds are the values of the label api.LabelInjected.
var kinds = []string{string(workload.KindCassandra), string(workload.KindAnna), string(workload.KindCloudburst)}

// kindOf reads the label of an injected pod.
func kindOf(labels map[string]string) string { return labels[api.LabelInjected] }
