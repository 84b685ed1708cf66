package check

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/stategraft/stategraft/webhook"
)

func namespace(name string, marks, annotations map[string]string) corev1.Namespace {
	return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: marks, Annotations: annotations}}
}

func TestNamespaces(t *testing.T) {
	hook := registered(t).Webhooks[0]
	selector, err := metav1.LabelSelectorAsSelector(hook.NamespaceSelector)
	if err != nil {
		t.Fatal(err)
	}
	const inject = "stategraft.io/inject"
	enabled := func(more ...string) map[string]string {
		marks := map[string]string{inject: "enabled"}
		for i := 0; i < len(more); i += 2 {
			marks[more[i]] = more[i+1]
		}
		return marks
	}
	gone := namespace("gone", enabled(), nil)
	gone.DeletionTimestamp = &metav1.Time{Time: noon}
	for _, c := range []struct {
		what string
		all  []corev1.Namespace
		only string
		want []string
	}{
		{"none", []corev1.Namespace{namespace("a", nil, nil)}, "", []string{"warn : no namespace is labelled"}},
		{"one that ends", []corev1.Namespace{gone}, "", []string{"warn : no namespace is labelled"}},
		{"not the one", []corev1.Namespace{namespace("a", nil, nil)}, "a", []string{"warn a: is not labelled"}},
		{"switched off", []corev1.Namespace{namespace("a", map[string]string{inject: "disabled"}, nil)}, "a", []string{"warn a: is not labelled"}},
		{"two", []corev1.Namespace{namespace("b", enabled(), nil), namespace("a", enabled(), nil), namespace("c", nil, nil)}, "", []string{"ok : labelled: a, b"}},
		{"a value", []corev1.Namespace{namespace("a", map[string]string{inject: "true"}, nil)}, "", []string{`warn a: is "true", which nobody reads`, "warn : no namespace"}},
		{"a value's case", []corev1.Namespace{namespace("a", map[string]string{inject: "Enabled"}, nil)}, "", []string{`warn a: is "Enabled"`, "warn : no namespace"}},
		{"a typo", []corev1.Namespace{namespace("a", map[string]string{"stategraft.io/injekt": "enabled"}, nil)}, "",
			[]string{"warn a: did you mean stategraft.io/inject?", "warn : no namespace"}},
		{"an annotation", []corev1.Namespace{namespace("a", nil, map[string]string{inject: "enabled"})}, "",
			[]string{"warn a: is read as a label", "warn : no namespace"}},
		{"another's habit", []corev1.Namespace{namespace("a", map[string]string{"inject.stategraft.io/enabled": "true"}, nil)}, "",
			[]string{"warn a: inject.stategraft.io/enabled is not read", "warn : no namespace"}},
		{"no prefix", []corev1.Namespace{namespace("a", map[string]string{"Stategraft-Injection": "enabled"}, nil)}, "",
			[]string{"warn a: Stategraft-Injection is not read", "warn : no namespace"}},
		{"others' keys", []corev1.Namespace{namespace("a", enabled("istio-injection", "enabled", "app.kubernetes.io/name", "stategraft"), nil)}, "", []string{"ok : labelled: a"}},
		{"a typo in a labelled one", []corev1.Namespace{namespace("a", enabled(), map[string]string{"stategraft.io/medusa-cfg": "m"})}, "",
			[]string{"warn a: did you mean stategraft.io/medusa-config?", "ok : labelled: a"}},
		{"a bad value", []corev1.Namespace{namespace("a", enabled(), map[string]string{"stategraft.io/grpc-port": "http"})}, "",
			[]string{"fail a: start without backup", "ok : labelled: a"}},
		{"a bad schedule", []corev1.Namespace{namespace("a", enabled(), map[string]string{"stategraft.io/backup-schedule": "0 25 * * *"})}, "",
			[]string{"fail a: backup-schedule", "ok : labelled: a"}},
		{"a bad retain and a bad rpo", []corev1.Namespace{namespace("a", enabled(), map[string]string{"stategraft.io/retain": "7d", "stategraft.io/rpo": "soon"})}, "",
			[]string{"fail a: retain", "fail a: rpo", "ok : labelled: a"}},
		{"a bad schedule and a bad value", []corev1.Namespace{namespace("a", enabled(), map[string]string{"stategraft.io/backup-schedule": "0", "stategraft.io/grpc-port": "http"})}, "",
			[]string{"fail a: start without backup", "fail a: backup-schedule", "ok : labelled: a"}},
		{"a bad restore", []corev1.Namespace{namespace("a", enabled(), map[string]string{"stategraft.io/restore": "a/b"})}, "",
			[]string{"fail a: are refused", "ok : labelled: a"}},
		{"a bad value that nobody reads", []corev1.Namespace{namespace("a", nil, map[string]string{"stategraft.io/grpc-port": "http"})}, "",
			[]string{"warn : no namespace is labelled"}},
		{"one that is left out", []corev1.Namespace{namespace("kube-system", enabled(corev1.LabelMetadataName, "kube-system"), nil)}, "",
			[]string{"warn kube-system: leaves it out", "warn : no namespace is labelled"}},
		{"one that is left out, beside another", []corev1.Namespace{namespace("a", enabled(), nil), namespace("kube-system", enabled(corev1.LabelMetadataName, "kube-system"), nil)}, "",
			[]string{"warn kube-system: leaves it out", "ok : labelled: a"}},
		{"Stategraft's own, asked for", []corev1.Namespace{namespace("stategraft", enabled(corev1.LabelMetadataName, "stategraft"), nil)}, "stategraft",
			[]string{"warn stategraft: leaves it out"}},
	} {
		expect(t, c.what, judgeNamespaces(c.all, c.only, selector, webhook.DefaultConfig()), c.want...)
	}
	expect(t, "no webhook to ask", judgeNamespaces([]corev1.Namespace{namespace("a", enabled(), nil)}, "", labels.Everything(), webhook.DefaultConfig()), "ok : labelled: a")
}
