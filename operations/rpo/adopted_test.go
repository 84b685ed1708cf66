package rpo

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
	"github.com/stategraft/stategraft/patches"
)

// A pod that was adopted is backed up like one that was injected, whole or as the cache
// keeps it; only what is said of its sidecar differs.
func TestAdopted(t *testing.T) {
	for name, pair := range adoptedtest.Corpus(t, "../..") {
		kept := &corev1.Pod{ObjectMeta: pair.Adopted.ObjectMeta}
		kept.Spec.EphemeralContainers = adopted.Stubs(pair.Adopted, patches.Roles...)
		was, ok := OfPod(pair.Injected)
		if !ok || was.Sidecar != SidecarInjected {
			t.Fatalf("%s, injected: %v, %+v", name, ok, was)
		}
		for _, pod := range []*corev1.Pod{pair.Adopted, kept} {
			is, ok := OfPod(pod)
			if !ok || is.Sidecar != SidecarAdopted || is.Kind != was.Kind || is.Owner != was.Owner || is.Reason != "" {
				t.Errorf("%s: %v, %+v; injected %+v", name, ok, is, was)
			}
		}
		degraded := pair.Adopted.DeepCopy()
		degraded.Status.Conditions = []corev1.PodCondition{{Type: api.ConditionDegraded, Status: corev1.ConditionTrue, Reason: "Healed"}}
		if is, _ := OfPod(degraded); is.Sidecar != SidecarDegraded {
			t.Errorf("%s, degraded: %+v", name, is)
		}
	}
	row := Rows(Input{Pods: []Pod{one(func(p *Pod) { p.Sidecar = SidecarAdopted })}, Namespaces: map[string]map[string]string{"ns": {}}, Now: now})
	if len(row) != 1 || row[0].Sidecar != SidecarAdopted {
		t.Errorf("rows %+v", row)
	}
}
