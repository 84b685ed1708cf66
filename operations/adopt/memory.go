package adopt

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/bits"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
	saidBy  *corev1.Pod      // that said is of
	said    uint64           // hashOf
	added   *corev1.Pod      // as it was after containers were added, until the watch has that
	refused int              // how often in a row the API server did not take them
	until   time.Time        // before which it is not asked again
	why     string           // not before then
	unsure  time.Time        // until when they may be added all the same, which shows when it is read again
	asked   bool             // it was asked for
	told    map[string]*told // by the event's reason
	written time.Time        // when its label was written last
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

// fingerprint is made once of each pod as the watch has it, and once a look of a namespace:
// there may be very many.
func (m *memory) fingerprint(pod *corev1.Pod, namespace uint64, parts int, config *webhook.Config) fingerprint {
	if m.saidBy != pod {
		m.saidBy, m.said = pod, hashOf(pod)
	}
	return fingerprint{m.said ^ bits.RotateLeft64(namespace, 1), parts, config}
}

// hashOf is one of an object's labels and annotations.
func hashOf(object metav1.Object) uint64 {
	hash := fnv.New64a()
	for _, all := range []map[string]string{object.GetLabels(), object.GetAnnotations()} {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(hash, "%q=%q,", key, all[key])
		}
		fmt.Fprint(hash, ";")
	}
	return hash.Sum64()
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
	case workload.ReasonHeldBack, workload.ReasonInternalError, workload.ReasonUnreadablePod:
		return shortly
	}
	return longest
}

// template is what pods that were made alike have in common, with what they are judged by.
type template struct {
	owner    types.UID
	revision string
	by       fingerprint
}

// templates are the judgements that hold for all that were made alike: that they are no
// databases. A namespace may have thousands of those, none of which is to be read for it.
type templates map[template]*judged

// of is that of a pod; its owner is empty where nobody knows that others are made like it.
// All pods of a ReplicaSet and of a Job are, and those of a revision of a StatefulSet or
// DaemonSet; an operator may make of one object a database and what looks at it.
func (t templates) of(pod *corev1.Pod, by fingerprint) template {
	owner, revision := metav1.GetControllerOf(pod), pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	switch {
	case owner == nil || by.parts > 0:
		return template{}
	case owner.Kind == "ReplicaSet" && owner.APIVersion == "apps/v1", owner.Kind == "Job" && owner.APIVersion == "batch/v1", revision != "":
		return template{owner.UID, revision, by}
	}
	return template{}
}

// keep drops those that hold no longer.
func (t templates) keep(now time.Time) {
	maps.DeleteFunc(t, func(_ template, j *judged) bool { return !j.until.After(now) })
}

// memories are those of all pods, by their UID.
type memories map[types.UID]*memory

func (m memories) of(pod *corev1.Pod) *memory {
	k := m[pod.UID]
	if k == nil {
		k = &memory{told: map[string]*told{}}
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
func (m *memory) fail(now time.Time, steps []time.Duration, why string) time.Time {
	m.why = why
	if len(steps) == 0 {
		steps = DefaultBackoff
	}
	m.until = now.Add(steps[min(m.refused, len(steps)-1)])
	m.refused++
	return m.until
}

// succeed has the next try be the first again.
func (m *memory) succeed() { m.refused, m.until, m.why = 0, time.Time{}, "" }
