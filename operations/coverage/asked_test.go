package coverage

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func TestAsked(t *testing.T) {
	pod := func(uid string, annotations ...string) *metav1.PartialObjectMetadata {
		p := metadata("Pod")
		p.Name, p.UID, p.Annotations = "cas-0", types.UID(uid), map[string]string{}
		for i := 0; i < len(annotations); i += 2 {
			p.Annotations[annotations[i]] = annotations[i+1]
		}
		return p
	}
	var told []string
	h := askedHandler(func(p *metav1.PartialObjectMetadata) {
		told = append(told, string(p.UID)+"="+p.Annotations[api.AnnotationRestore])
	})
	h.OnAdd(pod("a"), true)
	h.OnAdd(pod("b", api.AnnotationRestore, "one"), true)
	h.OnUpdate(pod("a"), pod("a", "other", "x"))
	h.OnUpdate(pod("a"), pod("a", api.AnnotationRestore, "two"))
	h.OnUpdate(pod("a", api.AnnotationRestore, "two"), pod("a", api.AnnotationRestore, "two", api.AnnotationRestoreAnswer, "two: refused: why")) // answered
	h.OnUpdate(pod("a", api.AnnotationRestore, "two"), pod("a", api.AnnotationRestore, "two"))                                                   // a resync
	h.OnUpdate(pod("a", api.AnnotationRestore, "two"), pod("a", api.AnnotationRestore, ""))
	h.OnUpdate(pod("a", api.AnnotationRestore, "two"), pod("c", api.AnnotationRestore, "two")) // another pod of the name
	h.OnUpdate(pod("a", api.AnnotationRestore, "two"), pod("a"))
	h.OnDelete(pod("b", api.AnnotationRestore, "one"))
	if want := []string{"b=one", "a=two", "a=", "c=two"}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
}
