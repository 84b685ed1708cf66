package webhook

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/stategraft/stategraft/workload"
)

// Recorder writes decisions as events on the pod's owner. The recorder only
// queues: nothing waits for the API server.
type Recorder struct{ events.EventRecorder }

// Skipped implements Events.
func (r Recorder) Skipped(namespace string, owner workload.Owner, d workload.Decision) {
	if owner.Name == "" {
		return // a pod without owner is made by a person, who sees the warning
	}
	reason, note := "StategraftSkipped", "not injected"
	if d.Verdict == workload.Refuse {
		reason, note = "StategraftRefused", "refused"
	}
	// A note may have 1 kB (k8s.io/api/events/v1).
	r.Eventf(ownerReference(namespace, owner), nil, corev1.EventTypeWarning, reason, "Admission", "pod %s (%s): %s", note, d.Reason, workload.Clip(d.Message, 900))
}

// Unread implements Events.
func (r Recorder) Unread(namespace string, owner workload.Owner, warning string) {
	if owner.Name != "" {
		r.Eventf(ownerReference(namespace, owner), nil, corev1.EventTypeWarning, "StategraftUnread", "Admission", "%s", workload.Clip(workload.Printable(warning), 900))
	}
}

func metaUID(uid string) types.UID { return types.UID(uid) }
