package coverage

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// fat is a pod's metadata with everything that a cluster puts in.
func fat() *metav1.PartialObjectMetadata {
	pod := metadata("Pod")
	pod.ObjectMeta = metav1.ObjectMeta{
		Name: "ring-0", Namespace: "cassandra", UID: "5f1c8a52-0000-4000-8000-000000000001", ResourceVersion: "12345",
		GenerateName: "ring-", CreationTimestamp: metav1.Time{Time: created}, Finalizers: []string{"x"},
		Labels:          map[string]string{"app": "cassandra", api.LabelWorkload: "cassandra"},
		Annotations:     map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "…", api.AnnotationGRPCPort: "50099"},
		OwnerReferences: []metav1.OwnerReference{{Name: "ring"}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "x"}},
	}
	return pod
}

func TestStripPod(t *testing.T) {
	want := metadata("Pod")
	want.Name, want.Namespace, want.UID, want.ResourceVersion = "ring-0", "cassandra", fat().UID, "12345"
	want.CreationTimestamp.Time = created
	want.Labels = map[string]string{api.LabelWorkload: "cassandra"}
	want.Annotations = map[string]string{api.AnnotationGRPCPort: "50099"}
	got, err := stripPod(fat())
	if err != nil {
		t.Fatal(err)
	}
	if text, expect := dump(got), dump(want); text != expect {
		t.Errorf("%s\nwant %s", text, expect)
	}
	gone := toolscache.DeletedFinalStateUnknown{Key: "cassandra/ring-0"}
	if got, err := stripPod(gone); err != nil || got != gone {
		t.Errorf("%v, %v", got, err)
	}
}

func TestChanged(t *testing.T) {
	for _, c := range []struct {
		what string
		edit func(*metav1.PartialObjectMetadata)
		want bool
	}{
		{"status", func(p *metav1.PartialObjectMetadata) { p.ResourceVersion = "12346" }, false},
		{"replaced", func(p *metav1.PartialObjectMetadata) { p.UID = "2" }, true},
		{"on its way out", func(p *metav1.PartialObjectMetadata) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, true},
		{"label", func(p *metav1.PartialObjectMetadata) {
			p.Labels = map[string]string{api.LabelInject: api.InjectDisabled}
		}, true},
		{"annotation", func(p *metav1.PartialObjectMetadata) { p.Annotations = nil }, true},
		{"label for annotation", func(p *metav1.PartialObjectMetadata) { p.Labels, p.Annotations = p.Annotations, p.Labels }, true},
	} {
		before, after := fat(), fat()
		_, _ = stripPod(before)
		_, _ = stripPod(after)
		c.edit(after)
		if got := changed.Update(event.TypedUpdateEvent[*metav1.PartialObjectMetadata]{ObjectOld: before, ObjectNew: after}); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
