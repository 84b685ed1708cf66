package heal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	surveyLife = time.Minute // for which a survey is used again
	pageSize   = 500
)

// survey knows the room on the nodes. It asks for nodes and pods when somebody
// wants to know, at most once a minute, and keeps sums only: watching every pod of
// the cluster for what is hardly ever needed would cost more than all the rest.
type survey struct {
	reader client.Reader // of the API server itself
	now    func() time.Time

	mu     sync.Mutex
	taken  time.Time
	places []place
}

// look answers the nodes with what is free on them. Nobody may change them.
func (s *survey) look(ctx context.Context) ([]place, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := s.now().Sub(s.taken); s.places != nil && age >= 0 && age < surveyLife {
		return s.places, nil
	}
	taken := s.now()
	places := []place{}
	for more, next := true, ""; more; more = next != "" {
		var nodes corev1.NodeList // a fresh one: what a page does not have would stay from the last
		if err := s.reader.List(ctx, &nodes, client.Limit(pageSize), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("listing the nodes: %w", err)
		}
		next = nodes.Continue
		for i := range nodes.Items {
			places = append(places, placeOf(&nodes.Items[i]))
		}
	}
	if err := s.book(ctx, places); err != nil {
		return nil, err
	}
	s.taken, s.places = taken, slices.Clip(places)
	return s.places, nil
}

// book takes off what the pods on the nodes ask for.
func (s *survey) book(ctx context.Context, places []place) error {
	at := make(map[string]*place, len(places))
	for i := range places {
		at[places[i].node.Name] = &places[i]
	}
	running := fields.AndSelectors(fields.OneTermNotEqualSelector("spec.nodeName", ""),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
	for more, next := true, ""; more; more = next != "" {
		var pods corev1.PodList
		if err := s.reader.List(ctx, &pods, client.MatchingFieldsSelector{Selector: running}, client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("listing the pods on the nodes: %w", err)
		}
		next = pods.Continue
		for i := range pods.Items {
			if p := at[pods.Items[i].Spec.NodeName]; p != nil {
				p.take(requestsOf(&pods.Items[i], true))
			}
		}
	}
	return nil
}
