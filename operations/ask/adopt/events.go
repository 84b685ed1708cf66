package adopt

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/operations/adopt"
	"github.com/stategraft/stategraft/operations/ask"
)

// Events of the controller that say why a pod is not adopted, or no longer.
const (
	eventNot   = "NotAdopted"
	eventEnded = "AdoptionEnded"
)

// said is what the controller has said of a pod last.
type said struct {
	Reason adopt.Reason // empty where the note begins with none
	Text   string
	At     time.Time
}

// heard reads what the controller has said of pods, by their uid; what cannot be read was
// not said.
func heard(ctx context.Context, c client.Reader, namespace string) map[types.UID]said {
	out := map[types.UID]said{}
	for _, reason := range []string{eventNot, eventEnded} {
		var list corev1.EventList
		// Both are fields of the API server's (k8s.io/kubernetes/pkg/registry/core/event, ToSelectableFields).
		selector := client.MatchingFieldsSelector{Selector: fields.Set{"involvedObject.kind": "Pod", "reason": reason}.AsSelector()}
		if c.List(ctx, &list, client.InNamespace(namespace), selector) != nil {
			continue
		}
		for i := range list.Items {
			e := &list.Items[i]
			if e.Reason != reason || e.InvolvedObject.Kind != "Pod" {
				continue
			}
			if was, known := out[e.InvolvedObject.UID]; !known || was.At.Before(last(e)) {
				out[e.InvolvedObject.UID] = saying(e)
			}
		}
	}
	return out
}

// saying reads an event, whose note begins with the reason: "sub-path: its data volume …".
func saying(e *corev1.Event) said {
	s := said{Text: ask.Clean(e.Message), At: last(e)}
	if word, rest, ok := strings.Cut(s.Text, ": "); ok && slices.Contains(adopt.Reasons, adopt.Reason(word)) {
		s.Reason, s.Text = adopt.Reason(word), rest
	}
	return s
}

// last is when an event was seen last: both kinds of API have it elsewhere.
func last(e *corev1.Event) time.Time {
	at := e.EventTime.Time
	if e.LastTimestamp.After(at) {
		at = e.LastTimestamp.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}
