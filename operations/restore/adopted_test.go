package restore

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
	"github.com/stategraft/stategraft/operations/kvs"
)

// A pod that was adopted is restored where one that was injected is, and for the same reasons
// is not: its sidecar is asked, and it is created anew.
func TestAdoptedIsRestored(t *testing.T) {
	for name, pair := range adoptedtest.Corpus(t, "../..") {
		for _, pod := range []*corev1.Pod{pair.Injected, pair.Adopted} {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "cas", UID: "set", Controller: new(true)}}
			pod.Name = "cas-0"
		}
		if p := CheckPod(pair.Adopted); p != nil {
			t.Errorf("%s: %+v; injected %+v", name, p, CheckPod(pair.Injected))
		}
		if idles(pair.Adopted) || usable(pair.Adopted) != usable(pair.Injected) {
			t.Errorf("%s: idles %v, usable %v", name, idles(pair.Adopted), usable(pair.Adopted))
		}
		if was, is := databaseVersion(pair.Injected), databaseVersion(pair.Adopted); was != is {
			t.Errorf("%s: version %q; injected %q", name, is, was)
		}
		// A database that was started before another container of ours is no other one.
		pair.Injected.UID = pair.Adopted.UID
		before := process(pair.Adopted)
		for i := range pair.Adopted.Status.EphemeralContainerStatuses {
			pair.Adopted.Status.EphemeralContainerStatuses[i].RestartCount++
		}
		if process(pair.Adopted) != before || process(pair.Injected) != before {
			t.Errorf("%s: its process is %s, and was %s; injected %s", name, process(pair.Adopted), before, process(pair.Injected))
		}
		if kvs.HoldsData(pair.Injected) != kvs.HoldsData(pair.Adopted) || kindOf([]*corev1.Pod{pair.Adopted}) != kindOf([]*corev1.Pod{pair.Injected}) {
			t.Errorf("%s: kind %s", name, kindOf([]*corev1.Pod{pair.Adopted}))
		}
		if restoreID(pair.Adopted) != "" || restoreStatus(pair.Adopted) != nil || TemplateBackup(pair.Adopted) != "" {
			t.Errorf("%s: it seems to be restored", name)
		}
	}
}

// The sidecar of an adopted node of Anna writes no keys, so nothing is merged into one.
func TestNothingIsMergedIntoAdopted(t *testing.T) {
	for name, pair := range adoptedtest.Corpus(t, "../..") {
		if !kvs.HoldsData(pair.Adopted) {
			continue
		}
		f := &Facts{Restore: &api.Restore{Spec: api.RestoreSpec{Mode: api.Merge}}}
		if p := f.checkPod(pair.Injected); p != nil {
			t.Errorf("%s, injected: %+v", name, p)
		}
		if p := f.checkPod(pair.Adopted); p == nil || p.Reason != ReasonNotSupported || p.Wait {
			t.Errorf("%s: %+v", name, p)
		}
		f.Pods = []*corev1.Pod{pair.Adopted}
		if p := (&reconciler{planner: realPlanner}).changed(f); p == nil || p.Reason != ReasonNotSupported { // it was adopted since it was accepted
			t.Errorf("%s: %+v", name, p)
		}
	}
}
