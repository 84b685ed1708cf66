package restore

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// TestOwners: pods that run say nothing of what those after them will be like.
func TestOwners(t *testing.T) {
	template := func(change func(*appsv1.StatefulSet)) *appsv1.StatefulSet { return factSet(3, change) }
	for _, c := range []struct {
		what   string
		set    *appsv1.StatefulSet
		reason string
		wait   bool
		says   string
	}{
		{"as it should be", factSet(3), "", false, ""},
		{"it is not known", nil, "", false, ""},
		{"the template restores", template(func(s *appsv1.StatefulSet) {
			s.Spec.Template.Annotations = map[string]string{api.AnnotationRestore: "weekly"}
		}), ReasonTemplateRestores, false, "weekly"},
		{"the template restores nothing that has a name", template(func(s *appsv1.StatefulSet) {
			s.Spec.Template.Annotations = map[string]string{api.AnnotationRestore: ""}
		}), ReasonTemplateRestores, false, "take it out"},
		{"the template is opted out", template(func(s *appsv1.StatefulSet) {
			s.Spec.Template.Labels = map[string]string{api.LabelInject: api.InjectDisabled}
		}), ReasonOptedOut, false, "template"},
		{"the template names a node", template(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.NodeName = "n1" }), ReasonNotSupported, false, "n1"},
		{"it is being deleted", template(func(s *appsv1.StatefulSet) { s.DeletionTimestamp = new(metav1.NewTime(today)) }), ReasonPodGoing, true, "being deleted"},
		{"a pod is on its way out", factSet(1), ReasonPodGoing, true, "pod cas-1 is on its way out: StatefulSet cas is to have 1 pod"},
		{"it counts from one", template(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1} }), ReasonPodGoing, true, "pod cas-0"},
		{"another of the name", factSet(0, func(s *appsv1.StatefulSet) { s.UID = "younger" }), "", false, ""},
	} {
		_, p := Accept(facts(2, 3, owned(c.set)))
		if !problemIs(p, c.reason) || p != nil && (p.Wait != c.wait || !strings.Contains(p.Message, c.says)) {
			t.Errorf("%s: %+v", c.what, p)
		}
	}
}

// TestAbsentIsNotScaledDown: a pod that its StatefulSet is to have and that is not
// there, because those before it are not ready or it cannot be made.
func TestAbsentIsNotScaledDown(t *testing.T) {
	all := func(f *Facts) {
		f.Backup = factBackup("nightly", "cas-0", "cas-1", "cas-2")
		f.Restore.Status.Started = new(metav1.NewTime(today.Add(-time.Hour)))
	}
	selected := spec(func(s *api.RestoreSpec) {
		s.Pods = api.RestorePods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cas"}}}
	})
	if _, _, p := Plan(facts(2, 2, all, selected, owned(factSet(3)))); !problemIs(p, ReasonPodNotFound) || !p.Wait || !strings.Contains(p.Message, "cas-2") {
		t.Errorf("selected: %+v", p)
	}
	if _, message, p := Plan(facts(2, 2, all, owned(factSet(3)))); p != nil || !strings.Contains(message, "cas-2") {
		t.Errorf("named: %+v %s", p, message)
	}
	if _, _, p := Plan(facts(2, 2, all, selected, owned(factSet(2)))); !problemIs(p, ReasonTopologyDiffers) || p.Wait || !strings.Contains(p.Message, "to 3 first") {
		t.Errorf("scaled down: %+v", p)
	}
}

// TestTemplateChangesMeanwhile has the template changed between the acceptance and the
// prechecks.
func TestTemplateChangesMeanwhile(t *testing.T) {
	restore := fresh(func(r *api.Restore) { r.Spec.Pods.Names = []string{"cas-0"} })
	restore.Status = accept(restore, &verdict{names: restore.Spec.Pods.Names}, today).status
	set := factSet(1, func(s *appsv1.StatefulSet) {
		s.Spec.Template.Annotations = map[string]string{api.AnnotationRestore: "weekly"}
	})
	c, _ := liveOn(t, interceptor.Funcs{}, labelledNamespace(), restore, factPod("cas-0"), set)
	nodes := &sidecars{reports: map[string]node.Report{"cas-0": {Node: "cas-0"}}, backup: factBackup("nightly", "cas-0")}
	v, err := reconcilerOn(c, nodes, nil).precheck(t.Context(), restore)
	if err != nil || !problemIs(v.problem, ReasonTemplateRestores) {
		t.Errorf("%v, %+v", err, v.problem)
	}
}
