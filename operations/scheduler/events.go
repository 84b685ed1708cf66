package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/telling"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of the events, a closed set. On the BackupSchedule; on the Backup too,
// where it is about one that is there.
const (
	eventScheduled = "BackupScheduled"  // a run begins
	eventSkipped   = "BackupSkipped"    // a run is left out
	eventLate      = "BackupLate"       // a run waits, or one is stuck
	eventRunFailed = "BackupIncomplete" // a run ended otherwise than complete
	eventCancelled = "BackupReplaced"   // one is cancelled for the sake of the next
	eventRefused   = "ScheduleRefused"
	eventDeleted   = "BackupDeleted"     // by retention, with why
	eventWould     = "BackupWouldDelete" // by retention with dryRun
	eventForgotten = "BackupForgotten"   // an object without data, by failedHistoryLimit
	eventHeld      = "RetentionHeld"
)

// noteLimit is less than an event's note may have (k8s.io/api/events/v1).
const noteLimit = 900

// teller writes events. The recorder only queues: nothing waits for the API server.
type teller interface {
	tell(about corev1.ObjectReference, backup *api.Backup, kind, reason, note string)
}

type recorder struct{ events.EventRecorder }

func (t recorder) tell(about corev1.ObjectReference, backup *api.Backup, kind, reason, note string) {
	note = workload.Clip(note, noteLimit)
	if backup == nil {
		t.Eventf(&about, nil, kind, reason, telling.Action("Schedule", note), "%s", note)
		return
	}
	it := ofBackup(backup)
	t.Eventf(&about, &it, kind, reason, telling.Action("Schedule", note), "%s", note)
	t.Eventf(&it, &about, kind, reason, telling.Action("Schedule", note), "%s", note)
}

func ofSchedule(s *api.BackupSchedule) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: api.GroupVersion.String(), Kind: "BackupSchedule", Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion}
}

func ofBackup(b *api.Backup) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: api.GroupVersion.String(), Kind: "Backup", Namespace: b.Namespace, Name: b.Name, UID: b.UID, ResourceVersion: b.ResourceVersion}
}
