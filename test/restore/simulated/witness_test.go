package simulated

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Pending since revision 10, deleting since 20.
func versions() []api.Restore {
	v := func(revision string, phase api.PodPhase) api.Restore {
		return api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r", UID: "1", ResourceVersion: revision},
			Status: api.RestoreStatus{ID: "r/1", Pending: []string{"ring-0"}, Pods: []api.PodRestore{{Name: "ring-0", Phase: phase}}}}
	}
	return []api.Restore{v("10", api.PodPlanned), v("20", api.PodStopping), v("30", api.PodRestoring)}
}

func TestWitness(t *testing.T) {
	cancelled := versions()[2]
	cancelled.Spec.Cancel = true
	for name, c := range map[string]struct {
		born                 string // revision
		changed              bool   // by others, before it was seen
		pod                  string
		remembers            bool
		half                 bool
		live                 []api.Restore
		away                 bool // the API server
		starts, ready, slips bool // are found
	}{
		"from before":              {born: "5", live: versions()[2:]},
		"between":                  {born: "15", live: versions()[2:], slips: true, ready: true},
		"after":                    {born: "25", live: versions()[2:], starts: true, ready: true},
		"after, away":              {born: "25", away: true, starts: true, ready: true},
		"restored":                 {born: "25", remembers: true, live: versions()[2:]},
		"another pod":              {born: "25", pod: "ring-1", live: versions()[2:]},
		"cancelled":                {born: "25", live: []api.Restore{cancelled}},
		"deleted":                  {born: "25"},
		"half":                     {born: "15", half: true, live: versions()[2:], starts: true, ready: true},
		"half, cancelled":          {born: "15", half: true, live: []api.Restore{cancelled}},
		"when it was is not known": {born: "25", changed: true, live: versions()[2:]},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWitness(&Timeline{}, func(context.Context, string) ([]api.Restore, error) {
				if c.away {
					return nil, errors.New("away")
				}
				return c.live, nil
			})
			for _, v := range versions() {
				w.Restore(&v, false)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "ring-0", UID: types.UID("p"), ResourceVersion: c.born,
				ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
			if c.pod != "" {
				pod.Name = c.pod
			}
			if c.changed {
				pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{})
			}
			w.Created(pod)
			remembers := func(string) bool { return c.remembers }
			var applying *node.Done
			if c.half {
				applying = &node.Done{ID: "r/1"}
			}
			w.Starts(pod, remembers, applying)
			if got := len(w.Violations("n")) > 0; got != c.starts {
				t.Errorf("its start is found: %v, want %v: %v", got, c.starts, w.Violations("n"))
			}
			if got := w.Slipped("n") > 0; got != c.slips {
				t.Errorf("it slipped in: %v, want %v", got, c.slips)
			}
			before := len(w.Violations("n"))
			w.Ready(pod, remembers)
			if got := len(w.Violations("n")) > before; got != c.ready {
				t.Errorf("that it is ready is found: %v, want %v", got, c.ready)
			}
		})
	}
}

func TestWitnessReplaces(t *testing.T) {
	w := NewWitness(&Timeline{}, nil)
	r := versions()[1]
	r.Spec.Parallel = 1
	w.Restore(&r, false)
	w.Replaces("n", "ring-1", "r/1", []string{"other-0"}, 0)
	if v := w.Violations("n"); len(v) > 0 {
		t.Errorf("found %q", v)
	}
	w.Replaces("n", "ring-1", "r/1", []string{"ring-0"}, 0)
	w.Replaces("n", "ring-1", "r/1", nil, 1)
	if v := w.Violations("n"); len(v) != 2 {
		t.Errorf("found %q, want an old database and too many at once", v)
	}
}
