package replay

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
)

type nodes map[string]*node.Replay

func (n nodes) Report(_ context.Context, pod *corev1.Pod) (node.Report, error) {
	return node.Report{Replay: n[pod.Name]}, nil
}

// TestLook follows a pod that a template has restored to its end, beside others that are
// none of our business.
func TestLook(t *testing.T) {
	ctx := t.Context()
	pod := restored(backup("b"))
	pod.Annotations = map[string]string{kvs.AnnotationRole: "memory"} // as the cache has it
	plain := pod.DeepCopy()
	plain.Name, plain.UID, plain.Spec.ReadinessGates = "anna-memory-1", "v", nil
	routing := pod.DeepCopy()
	routing.Name, routing.UID, routing.Annotations = "anna-routing-0", "w", map[string]string{kvs.AnnotationRole: "routing"}
	scheme := fake.NewClientBuilder().Build().Scheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod, plain, routing).WithStatusSubresource(&corev1.Pod{}).Build()
	now, told := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC), events.NewFakeRecorder(10)
	says := nodes{}
	r := &runner{cached: c, live: c, writer: c, events: told, nodes: says, clock: func() time.Time { return now }, log: logr.Discard(), without: map[types.UID]bool{}}
	look := func() (*corev1.Pod, *corev1.PodCondition) {
		t.Helper()
		if err := r.look(ctx); err != nil {
			t.Fatal(err)
		}
		got := &corev1.Pod{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), got); err != nil {
			t.Fatal(err)
		}
		return got, conditionOf(got)
	}
	if _, is := look(); is == nil || is.Status != corev1.ConditionFalse || is.Reason != ReasonRestoring {
		t.Fatalf("%+v", is)
	}
	if !r.without["v"] || r.without["u"] || r.without["w"] {
		t.Errorf("without a gate are %v", r.without)
	}
	says[pod.Name] = &node.Replay{ID: "b", Backup: "b", Phase: node.ReplayReplaying, Keys: 1, Total: 9}
	first, is := look()
	if is.Reason != ReasonReplaying {
		t.Fatalf("%+v", is)
	}
	says[pod.Name].Keys = 2
	if again, _ := look(); again.ResourceVersion != first.ResourceVersion {
		t.Error("each key is written to the API server")
	}
	now = now.Add(againEvery)
	if _, is := look(); !strings.Contains(is.Message, "2 of 9") {
		t.Errorf("%+v", is)
	}
	says[pod.Name].Phase, says[pod.Name].Keys = node.ReplayDone, 9
	if _, is := look(); is.Status != corev1.ConditionTrue || !is.LastTransitionTime.Equal(&is.LastProbeTime) {
		t.Fatalf("%+v", is)
	}
	if text := <-told.Events; !strings.Contains(text, eventReplayed) {
		t.Error(text)
	}
	delete(says, pod.Name) // the sidecar has forgotten it: what is done is done
	if _, is := look(); is.Status != corev1.ConditionTrue || len(told.Events) > 0 {
		t.Errorf("%+v", is)
	}
	other := &corev1.Pod{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(routing), other); err != nil || conditionOf(other) != nil {
		t.Error("routing has a condition", err)
	}
}
