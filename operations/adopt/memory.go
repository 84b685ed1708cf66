package adopt

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// memory is what is kept of a pod beside what is on it, which all decisions rest on: the
// next process reads and tells some things once more.
type memory struct {
	judged  *judged
	added   *corev1.Pod // as it was after containers were added, until the watch has that
	refused int         // how often in a row the API server did not take them
	until   time.Time   // before which it is not asked again
	asked   bool        // it was asked for
	told    map[string]string
}

// judged is what came out for a pod as a whole, and by what.
type judged struct {
	by      fingerprint
	out     webhook.Outcome
	digests map[patches.Role]string // of its newest round, as it would be added now
	until   time.Time
}

// fingerprint is what a pod is judged by, but for what it was created with.
type fingerprint struct {
	said   uint64 // labels and annotations of ours, of the pod and its namespace
	parts  int
	config *webhook.Config
}

func fingerprintOf(pod *corev1.Pod, namespace *metav1.PartialObjectMetadata, parts int, config *webhook.Config) fingerprint {
	hash := fnv.New64a()
	for _, all := range []map[string]string{pod.Labels, pod.Annotations, namespace.Labels, namespace.Annotations} {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(hash, "%q=%q,", key, all[key])
		}
		fmt.Fprint(hash, ";")
	}
	return fingerprint{hash.Sum64(), parts, config}
}

const (
	// longest is how long a judgement holds that rests on what the fingerprint has.
	longest = time.Hour
	// shortly is how long one holds that rests on something else too.
	shortly = 5 * time.Minute
)

// holds is how long a judgement holds.
func holdsFor(out webhook.Outcome) time.Duration {
	switch out.Reason {
	case workload.ReasonHeldBack, workload.ReasonQuotaExceeded, workload.ReasonInternalError, workload.ReasonUnreadablePod:
		return shortly
	}
	return longest
}

// memories are those of all pods, by their UID.
type memories map[types.UID]*memory

func (m memories) of(pod *corev1.Pod) *memory {
	k := m[pod.UID]
	if k == nil {
		k = &memory{told: map[string]string{}}
		m[pod.UID] = k
	}
	return k
}

// keep drops what is not among these.
func (m memories) keep(there map[types.UID]bool) {
	for uid := range m {
		if !there[uid] {
			delete(m, uid)
		}
	}
}

// newest is the pod as it is known best: the watch may be behind what was just added.
func (m *memory) newest(pod *corev1.Pod) *corev1.Pod {
	if m.added == nil {
		return pod
	}
	if Of(pod).Taken < Of(m.added).Taken {
		return m.added
	}
	m.added = nil
	return pod
}

// fail puts off the next try, and tells until when.
func (m *memory) fail(now time.Time, steps []time.Duration) time.Time {
	if len(steps) == 0 {
		steps = DefaultBackoff
	}
	m.until = now.Add(steps[min(m.refused, len(steps)-1)])
	m.refused++
	return m.until
}
