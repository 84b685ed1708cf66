package backup

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// step is what is to be done next with a Backup. The order is fixed: the finalizer
// goes on, the status is written, the events are told, parts are discarded, sidecars
// are asked to begin. So nothing is done that is not written down, and whoever finds the
// object after a crash goes on from there.
type step struct {
	status  api.BackupStatus // as it is to be; written where it differs
	hold    bool             // put the finalizer on
	say     []saying
	retried int      // tries that failed, for the metric
	discard []string // pods whose part in the storage is to go before the next try
	begin   []string // pods whose sidecars are to be asked
}

// saying is an event on the Backup.
type saying struct {
	kind    string
	reason  string
	message string
	owner   bool // also on the workload
}

// start begins a step from what the object says.
func start(b *api.Backup) step { return step{status: *b.Status.DeepCopy()} }

// changes tells whether there is a status to write.
func (s *step) changes(b *api.Backup) bool {
	return !equality.Semantic.DeepEqual(&s.status, &b.Status)
}

func (s *step) normal(reason, message string) {
	s.say = append(s.say, saying{kind: corev1.EventTypeNormal, reason: reason, message: message})
}

func (s *step) warn(reason, message string) {
	s.say = append(s.say, saying{kind: corev1.EventTypeWarning, reason: reason, message: message})
}

// held tells whether the finalizer is on.
func held(b *api.Backup) bool { return slices.Contains(b.Finalizers, api.FinalizerBackup) }

// deadline is when a Backup has to be over.
func deadline(b *api.Backup, status *api.BackupStatus) time.Time {
	from := b.CreationTimestamp.Time
	if status.Started != nil {
		from = status.Started.Time
	}
	return from.Add(b.Spec.TimeoutOrDefault())
}
