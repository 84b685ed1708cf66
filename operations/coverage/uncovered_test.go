package coverage

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// What was found is there for others with its owner, its labels and what it says of
// its backups, for as long as the pod lacks a sidecar.
func TestFindUncovered(t *testing.T) {
	pods, _ := corpus(t)
	c := newWorld()
	c.add(t, pods["plain-official-41"], "1", time.Hour)
	live := c.pods["ring-0"]
	live.OwnerReferences = []metav1.OwnerReference{{Kind: "Cluster", Name: "not-the-controller"}, {Kind: "StatefulSet", Name: "ring", Controller: new(true)}}
	live.Labels, live.Annotations = map[string]string{"app": "ring"}, map[string]string{api.AnnotationRPO: "2h", "other": "x"}
	if got, _ := c.reconcile(t); got == "" {
		t.Fatal("the pod is not without a sidecar")
	}
	found := c.state.uncovered()
	if len(found) != 1 {
		t.Fatalf("found %+v", found)
	}
	u := found[0]
	if u.Kind != workload.KindCassandra || u.Reason != ReasonWebhookWasDown || u.Pod.UID != "1" || u.Pod.CreationTimestamp.IsZero() || u.Pod.Namespace != live.Namespace {
		t.Errorf("found %+v", u)
	}
	if len(u.Pod.OwnerReferences) != 1 || u.Pod.OwnerReferences[0].Name != "ring" || u.Pod.Labels["app"] != "ring" || len(u.Pod.Annotations) != 1 || u.Pod.Annotations[api.AnnotationRPO] != "2h" {
		t.Errorf("kept %+v", u.Pod.ObjectMeta)
	}
	delete(c.objects, "Pod ring-0")
	c.reconcile(t)
	if found := c.state.uncovered(); len(found) != 0 {
		t.Errorf("it has gone, and is there: %+v", found)
	}
	c.add(t, pods["nginx"], "2", time.Hour)
	c.reconcile(t)
	if found := c.state.uncovered(); len(found) != 0 {
		t.Errorf("no database is found: %+v", found)
	}
}
