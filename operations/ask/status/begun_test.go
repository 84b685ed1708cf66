package status

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
	"github.com/stategraft/stategraft/patches"
)

// Of a pod with which nobody goes on it is not said that it is being adopted.
func TestBegun(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "db", Labels: map[string]string{api.LabelInject: api.InjectEnabled}, Annotations: map[string]string{api.AnnotationAdopt: api.AdoptRunning}}}
	up := adoptedtest.Official(t, "../../..").Adopted
	parts := adopted.Parts(up)
	ended := up.DeepCopy()
	last := &ended.Status.EphemeralContainerStatuses[len(parts)-1]
	*last = adoptedtest.Ended(last.Name, 1)
	often := ended.DeepCopy()
	for range 20 {
		often.Spec.EphemeralContainers = append(often.Spec.EphemeralContainers, ended.Spec.EphemeralContainers...)
	}
	never := ended.DeepCopy()
	never.Annotations = map[string]string{api.AnnotationAdopt: api.AdoptNever}
	waits := never.DeepCopy() // of which nothing is to be added
	waits.Status.EphemeralContainerStatuses[len(parts)-1] = adoptedtest.Waiting(last.Name, "ImagePullBackOff", "")
	now := adopted.Serving(parts).Added().Add(time.Minute)
	if parts[len(parts)-1].Role != patches.RoleMedusa {
		t.Fatal("Medusa is not the last")
	}
	for want, pods := range map[string][]*corev1.Pod{reasonAdopting: {up, ended}, "exhausted": {often}, "not-asked": {never, waits}} {
		for i, pod := range pods {
			if got := begun(ns, pod, now); got != want {
				t.Errorf("%s, %d: %s", want, i, got)
			}
		}
	}
}
