package restore

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/telling"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of the events, a closed set. On the Restore, and on the pod where it is
// about one.
const (
	eventAccepted    = "RestoreAccepted"
	eventWaiting     = "RestoreWaiting"
	eventChecked     = "RestorePrechecked"
	eventPlanned     = "RestorePlanned"  // of a dry run
	eventUnseen      = "RestoreNotSeen"  // the API server does not heed the pending list
	eventUnproved    = "RestoreUnproved" // something else refuses the probe
	eventStopping    = "RestoreStopping" // a pod is deleted
	eventRestoring   = "RestoreRestoring"
	eventMissing     = "RestoreMissing" // a pod came up without its restore container
	eventFailing     = "RestoreFailing" // a try failed
	eventRestored    = "PodRestored"
	eventStaged      = "PodStaged"          // of Anna: its part of the backup is there
	eventReplayed    = "PodReplayed"        // its keys are written again
	eventReplayAgain = "RestoreReplayAgain" // a node was lost meanwhile
	eventCompleted   = "RestoreCompleted"
	eventFailed      = "RestoreFailed"
	eventVolume      = "RestoreVolume"   // in what state a cancelled restore leaves a volume
	eventReleased    = "RestoreReleased" // a pod is deleted, to start without the restore
	eventCancelled   = "RestoreCancelled"
	eventOrphan      = "RestoreOrphan" // a pod waits for a Restore that is not there
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
		t.Eventf(&about, nil, kind, reason, telling.Action("Restore", note), "%s", note)
		return
	}
	t.Eventf(&about, related, kind, reason, telling.Action("Restore", note), "%s", note)
}

func ofRestore(r *api.Restore) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: api.GroupVersion.String(), Kind: "Restore", Namespace: r.Namespace, Name: r.Name, UID: r.UID, ResourceVersion: r.ResourceVersion}
}

func ofPod(pod *corev1.Pod) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
}

// tellAbout tells of a Restore and a pod of it, on both.
func tellAbout(t teller, r *api.Restore, pod *corev1.Pod, kind, reason, note string) {
	about := ofRestore(r)
	if pod == nil {
		t.tell(about, nil, kind, reason, note)
		return
	}
	it := ofPod(pod)
	t.tell(it, &about, kind, reason, note)
	t.tell(about, &it, kind, reason, note)
}
