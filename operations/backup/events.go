package backup

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/telling"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of the events, a closed set.
const (
	eventWaiting    = "BackupWaiting"
	eventPodFailing = "BackupPodFailing" // a try failed
	eventCompleted  = "BackupCompleted"
	eventFailed     = "BackupFailed" // also of one that is Partial; on the workload, too
	eventCancelled  = "BackupCancelled"
	eventDeleted    = "BackupDataDeleted"
	eventKept       = "BackupDataKept" // the object goes, and its data stay
	eventHeld       = "BackupDeletionWaiting"
)

// noteLimit is less than an event's note may have (k8s.io/api/events/v1).
const noteLimit = 900

// teller writes events. The recorder only queues: nothing waits for the API server.
type teller interface {
	tell(about corev1.ObjectReference, related *corev1.ObjectReference, kind, reason, note string)
}

type recorder struct{ events.EventRecorder }

func (t recorder) tell(about corev1.ObjectReference, related *corev1.ObjectReference, kind, reason, note string) {
	note = workload.Clip(note, noteLimit)
	if related == nil {
		t.Eventf(&about, nil, kind, reason, telling.Action("Backup", note), "%s", note)
		return
	}
	t.Eventf(&about, related, kind, reason, telling.Action("Backup", note), "%s", note)
}

func ofBackup(b *api.Backup) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: api.GroupVersion.String(), Kind: "Backup", Namespace: b.Namespace, Name: b.Name, UID: b.UID, ResourceVersion: b.ResourceVersion}
}
