package restore

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// step is what is to be done next with a Restore. The order is fixed: the finalizer
// goes on and then the namespace's label, the status is written, the events are told,
// pods are deleted, gates are lifted, replays are asked for, the finalizer goes off and then the label. So nothing is done that is not written down, and
// whoever finds the object after a crash goes on from there.
type step struct {
	status    api.RestoreStatus // as it is to be; written where it differs
	hold      bool              // put finalizer and label on
	free      bool              // take the finalizer off, and the label if no other needs it
	say       []saying
	remove    []removal
	lift      []*corev1.Pod
	replay    []replay
	counted   map[string]int // for the metric of pods, by outcome
	forgotten bool           // the pod that looks into the storage is not needed any more
	after     time.Duration  // when to look again; 0 for not before something happens
}

// removal is a pod to delete, and why, for its event.
type removal struct {
	pod     *corev1.Pod
	kind    string // of the event
	reason  string
	message string
}

// saying is an event on the Restore, and on the pod where one is named.
type saying struct {
	pod     *corev1.Pod // nil for the Restore alone
	kind    string
	reason  string
	message string
}

// begin starts a step from what the object says.
func begin(r *api.Restore) step {
	return step{status: *r.Status.DeepCopy(), counted: map[string]int{}}
}

// changes tells whether there is a status to write.
func (s *step) changes(r *api.Restore) bool {
	return !equality.Semantic.DeepEqual(&s.status, &r.Status)
}

func (s *step) normal(reason, message string) {
	s.say = append(s.say, saying{kind: corev1.EventTypeNormal, reason: reason, message: message})
}

func (s *step) warn(reason, message string) {
	s.say = append(s.say, saying{kind: corev1.EventTypeWarning, reason: reason, message: message})
}

// held tells whether the finalizer is on.
func held(r *api.Restore) bool {
	for _, f := range r.Finalizers {
		if f == Finalizer {
			return true
		}
	}
	return false
}
