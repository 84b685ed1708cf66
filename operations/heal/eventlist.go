package heal

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// history is what events of one reason tell about an object.
type history struct {
	first, last time.Time // zero where there is none
	message     string    // of the last
}

// eventsAbout lists the events of a reason about an object. The API server selects
// them; nothing is watched, as a cluster has very many events.
func eventsAbout(ctx context.Context, reader client.Reader, namespace string, uid types.UID, reason string) (history, error) {
	var list corev1.EventList
	about := fields.Set{"involvedObject.uid": string(uid), "reason": reason}.AsSelector()
	if err := reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: about}, client.Limit(pageSize)); err != nil {
		return history{}, fmt.Errorf("listing the events %s in namespace %s: %w", reason, namespace, err)
	}
	var all history
	for i := range list.Items {
		first, last := timesOf(&list.Items[i])
		if all.first.IsZero() || first.Before(all.first) {
			all.first = first
		}
		if !last.Before(all.last) {
			all.last, all.message = last, list.Items[i].Message
		}
	}
	return all, nil
}

// timesOf is when an event was first and last seen, by whichever of the two event
// APIs it was written.
func timesOf(e *corev1.Event) (first, last time.Time) {
	first, last = e.FirstTimestamp.Time, e.LastTimestamp.Time
	if first.IsZero() {
		first = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(last) {
		last = e.Series.LastObservedTime.Time
	}
	if last.IsZero() {
		last = first
	}
	return first, last
}
