package request

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestComposeNames(t *testing.T) {
	long := strings.Repeat("very-long.", 20) + "x"
	for _, owner := range []string{"cas", long, "a"} {
		pods := []*corev1.Pod{aPod(owner+"-0", "b"), aPod(owner+"-1", "b")}
		for _, p := range pods {
			p.OwnerReferences[0].Name = owner
		}
		r := compose(pods, "b", 0)
		if problems := validation.IsDNS1123Subdomain(r.Name); len(problems) > 0 || len(r.Name) > 52 {
			t.Errorf("%s: %q", r.Name, problems)
		}
		slices.Reverse(pods)
		if other := compose(pods, "b", 0); other.Name != r.Name || other.RequestID() != r.RequestID() {
			t.Error("the order counts")
		}
		names := map[string]bool{r.Name: true, compose(pods[:1], "b", 0).Name: true, compose(pods, "c", 0).Name: true, compose(pods, "b", 1).Name: true}
		if len(names) != 4 {
			t.Error(names)
		}
	}
}

func TestGroupOf(t *testing.T) {
	alone := aPod("x", "")
	alone.OwnerReferences = nil
	other := aPod("cas-0", "")
	other.OwnerReferences[0].Controller = nil
	for _, c := range []struct {
		pod  metav1.Object
		want string
	}{{aPod("cas-0", ""), "ns/StatefulSet/cas"}, {alone, "ns/Pod/x"}, {other, "ns/Pod/cas-0"}} {
		if got := groupOf(c.pod).String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
