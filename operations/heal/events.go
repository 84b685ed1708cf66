package heal

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/stategraft/stategraft/workload"
)

// The reasons of the events, a closed set.
const (
	eventHealed    = "StategraftHealed"    // pod: a container of ours idles in another image
	eventNotHealed = "StategraftNotHealed" // pod: it fails, and there is nothing more to do
	eventReplaced  = "StategraftReplaced"  // pod: deleted before it ever ran, to be created without us
	eventHeldBack  = "StategraftHeldBack"  // owner: its later pods are admitted without us for now
	eventReleased  = "StategraftReleased"  // owner: they are injected again
)

// teller writes events. The recorder only queues: nothing waits for the API server.
type teller struct{ events.EventRecorder }

func (t teller) warn(about corev1.ObjectReference, related *corev1.ObjectReference, reason, format string, args ...any) {
	t.tell(corev1.EventTypeWarning, about, related, reason, format, args...)
}

func (t teller) tell(kind string, about corev1.ObjectReference, related *corev1.ObjectReference, reason, format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = workload.Clip(text, 300) // a note may have 1 kB (k8s.io/api/events/v1)
		}
	}
	if related == nil {
		t.Eventf(&about, nil, kind, reason, "Heal", format, args...)
		return
	}
	t.Eventf(&about, related, kind, reason, "Heal", format, args...)
}
