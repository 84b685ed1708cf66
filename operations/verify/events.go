package verify

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/telling"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of the events, a closed set: on the Backup, and on its schedule where
// there is one.
const (
	eventStarted = "VerificationStarted"
	eventPassed  = "VerificationPassed"
	eventFailed  = "VerificationFailed"
	eventUnknown = "VerificationUnknown"
	eventSkipped = "VerificationSkipped" // there is no complete Backup
)

// noteLimit is less than an event's note may have (k8s.io/api/events/v1).
const noteLimit = 900

// teller writes events. The recorder only queues.
type teller interface {
	tell(about corev1.ObjectReference, related *corev1.ObjectReference, kind, reason, note string)
}

type recorder struct{ events.EventRecorder }

func (t recorder) tell(about corev1.ObjectReference, related *corev1.ObjectReference, kind, reason, note string) {
	note = workload.Clip(note, noteLimit)
	if related == nil {
		t.Eventf(&about, nil, kind, reason, telling.Action("Verify", note), "%s", note)
		return
	}
	t.Eventf(&about, related, kind, reason, telling.Action("Verify", note), "%s", note)
}

func ofBackup(b *api.Backup) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: api.GroupVersion.String(), Kind: "Backup", Namespace: b.Namespace, Name: b.Name, UID: b.UID, ResourceVersion: b.ResourceVersion}
}

func ofScheduleObject(s *api.BackupSchedule) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: api.GroupVersion.String(), Kind: "BackupSchedule", Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion}
}

// tellBoth tells of a Backup on it and on its schedule.
func tellBoth(t teller, b *api.Backup, s *api.BackupSchedule, kind, reason, note string) {
	backup := ofBackup(b)
	if s == nil {
		t.tell(backup, nil, kind, reason, note)
		return
	}
	about := ofScheduleObject(s)
	t.tell(backup, &about, kind, reason, note)
	t.tell(about, &backup, kind, reason, "Backup "+b.Name+": "+note)
}

// eventOf is the event of a verification that is over.
func eventOf(result api.VerificationResult) (kind, reason string) {
	switch result {
	case api.VerificationPassed:
		return corev1.EventTypeNormal, eventPassed
	case api.VerificationFailed:
		return corev1.EventTypeWarning, eventFailed
	}
	return corev1.EventTypeWarning, eventUnknown
}
