package backup

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// What speaks against a Backup is said as it is asked for, where it can be seen.
func TestDoubts(t *testing.T) {
	yes := true
	pod := func(namespace, name string, injected bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "c"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "c", Controller: &yes}}}}
		if injected {
			p.Labels[api.LabelInjected] = "cassandra"
		}
		return p
	}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bare"}},
		pod("prod", "c-0", true), pod("prod", "c-1", false), pod("bare", "c-0", false),
	}
	set := api.BackupPods{Workload: &api.BackupWorkload{Name: "c"}}
	for _, c := range []struct {
		namespace string
		of        api.BackupPods
		want      string
	}{
		{"prod", api.BackupPods{Names: []string{"c-0"}}, ""},
		{"prod", set, "it cannot be complete: c-1 without a sidecar; with --adopt given first"},
		{"prod", api.BackupPods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "c"}}}, "c-1 without a sidecar"},
		{"prod", api.BackupPods{Names: []string{"c-1"}}, "none of the pods has a sidecar: with --adopt they are given theirs first"},
		{"bare", set, "kubectl label namespace bare stategraft.io/inject=enabled, then give it --adopt"},
		{"gone", set, ""},
	} {
		if got := Doubts(t.Context(), store(nil, objects...), c.namespace, c.of); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", c.namespace, got, c.want)
		}
	}
}
