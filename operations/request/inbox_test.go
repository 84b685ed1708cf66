package request

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

func TestInbox(t *testing.T) {
	bare := func(p *corev1.Pod) { p.Labels, p.Spec.Containers = nil, p.Spec.Containers[:1] }
	for _, c := range []struct {
		what   string
		label  string
		pod    *corev1.Pod
		answer string // what the annotation says
		event  string
		kind   string // of the event, and its reason; empty for a refusal
	}{
		{"labelled", api.InjectEnabled, aPod("cas-0", "b", bare), "b: refused: pod cas-0 has no sidecar", "has no sidecar", ""},
		{"opted out", api.InjectEnabled, aPod("cas-0", "b", bare, func(p *corev1.Pod) { p.Labels = map[string]string{api.LabelInject: api.InjectDisabled} }), "b: refused: pod cas-0 is opted out", "opted out", ""},
		{"not labelled", "", aPod("cas-0", "b", bare), "", "kubectl label namespace ns stategraft.io/inject=enabled, then kubectl stategraft adopt", ""},
		{"answered", api.InjectEnabled, aPod("cas-0", "b", bare, func(p *corev1.Pod) { p.Annotations[api.AnnotationRestoreAnswer] = "b: refused: x" }), "b: refused: x", "", ""},
		{"injected by now", api.InjectEnabled, aPod("cas-0", "b"), "", "", ""},
		{"being adopted", api.InjectEnabled, aPod("cas-0", "b", bare, func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "stategraft-medusa-3",
				Env: []corev1.EnvVar{{Name: patches.EnvAdopted, Value: "3"}, {Name: patches.EnvNodePort, Value: "1"}}}}}
		}), "", "once the pod is adopted", "Normal " + EventAsked},
		{"empty value", "", aPod("cas-0", "", bare, func(p *corev1.Pod) { p.Annotations[api.AnnotationRestore] = "" }), "", "does not have the label", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{api.LabelInject: c.label}}}
			w := newWorld(t, c.pod, namespace)
			b := NewInbox()
			b.live, b.write, b.own, b.log = w.c, w.r.write, "stategraft", logr.Discard()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			b.Asked(c.pod)
			b.Asked(w.pod("cas-0"))
			go func() { ended <- b.Start(ctx) }()
			synctest.Wait()
			b.Asked(w.pod("cas-0")) // after a new list of all pods
			synctest.Wait()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if got := w.answer("cas-0"); !strings.HasPrefix(got, c.answer) || c.answer == "" && got != "" {
				t.Errorf("%s: answered %q", c.what, got)
			}
			said := w.said()
			if c.event == "" && len(said) > 0 || c.event != "" && (len(said) != 1 || !mention(said, cmp.Or(c.kind, "Warning "+EventRefused), c.event)) {
				t.Errorf("%s: says %q", c.what, said)
			}
		})
	}
}
