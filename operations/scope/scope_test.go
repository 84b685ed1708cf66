package scope

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func TestAsks(t *testing.T) {
	for _, c := range []struct {
		name, inject string
		want         bool
	}{
		{"ring", api.InjectEnabled, true},
		{"ring", api.InjectDisabled, false},
		{"ring", "", false},
		{"stategraft", api.InjectEnabled, true}, // not ours here
		{"default", api.InjectEnabled, true},
		{"kube-like", api.InjectEnabled, true},
		{"grafts", api.InjectEnabled, false},
		{"kube-system", api.InjectEnabled, false},
		{"kube-public", api.InjectEnabled, false},
		{"kube-node-lease", api.InjectEnabled, false},
	} {
		ns := &metav1.ObjectMeta{Name: c.name, Labels: map[string]string{api.LabelInject: c.inject}}
		if got := Asks(ns, "grafts"); got != c.want {
			t.Errorf("%s labelled %q: %v", c.name, c.inject, got)
		}
	}
}
