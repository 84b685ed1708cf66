package adopt

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// What is not adopted, with its reason.
func TestReasonsTold(t *testing.T) {
	skip := func(r workload.Reason) webhook.Outcome {
		return webhook.Outcome{Decision: workload.Decision{Verdict: workload.Skip, Reason: r, Message: "so it is"}}
	}
	for name, c := range map[string]struct {
		edit  func(w *world, p *corev1.Pod)
		want  Reason
		event bool
	}{
		"sub-path":        {func(w *world, _ *corev1.Pod) { w.out["c-0"] = skip(workload.ReasonSubPath) }, Reason(workload.ReasonSubPath), true},
		"opted out":       {func(w *world, _ *corev1.Pod) { w.out["c-0"] = skip(workload.ReasonOptedOut) }, Reason(workload.ReasonOptedOut), false},
		"no database":     {func(w *world, _ *corev1.Pod) { w.out["c-0"] = skip(workload.ReasonNotADatabase) }, Reason(workload.ReasonNotADatabase), false},
		"has a backup":    {func(w *world, _ *corev1.Pod) { w.out["c-0"] = skip(workload.ReasonAlreadyHasBackup) }, Reason(workload.ReasonAlreadyHasBackup), false},
		"held back":       {func(w *world, _ *corev1.Pod) { w.out["c-0"] = skip(workload.ReasonHeldBack) }, Reason(workload.ReasonHeldBack), true},
		"old kubelet":     {func(w *world, _ *corev1.Pod) { w.nodes["n"].Status.NodeInfo.KubeletVersion = "v1.24.0" }, ReasonOldKubelet, true},
		"windows":         {func(w *world, _ *corev1.Pod) { w.nodes["n"].Status.NodeInfo.OperatingSystem = "windows" }, ReasonWindows, true},
		"node not ready":  {func(w *world, _ *corev1.Pod) { w.nodes["n"].Status.Conditions = nil }, ReasonNodeNotReady, false},
		"no node":         {func(w *world, _ *corev1.Pod) { delete(w.nodes, "n") }, ReasonNodeNotReady, false},
		"not ready":       {func(_ *world, p *corev1.Pod) { p.Status.Conditions = nil }, ReasonNotReady, false},
		"no pair":         {func(w *world, _ *corev1.Pod) { w.digest = "" }, ReasonNoPair, false},
		"restore pending": {func(_ *world, p *corev1.Pod) { p.Annotations = map[string]string{api.AnnotationRestore: "x"} }, ReasonRestorePending, false},
		"a Restore":       {restoring, ReasonRestorePending, false},
		"refused":         {refused, ReasonRefused, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, aPod("c-0", "c", "n"))
			c.edit(w, w.one("c-0"))
			for range 3 {
				w.expect("refused", "")
			}
			heard := w.heard()
			if n := strings.Count(heard, "NotAdopted "+string(c.want)+": "); c.event != (n > 0) || n > 1 {
				t.Errorf("heard %q", heard)
			}
			if got := gauge(t, "stategraft_adoption_refused_pods", string(c.want)); got != 1 {
				t.Errorf("counted %v times", got)
			}
			p := w.one("c-0")
			p.Annotations = map[string]string{api.AnnotationAdopt: api.AdoptRunning, api.AnnotationRestore: p.Annotations[api.AnnotationRestore]}
			if p.Annotations[api.AnnotationRestore] == "" {
				delete(p.Annotations, api.AnnotationRestore)
			}
			w.look()
			if heard := w.heard(); !c.event && !strings.Contains(heard, "NotAdopted "+string(c.want)) {
				t.Errorf("who asks for the pod itself hears %q", heard)
			}
		})
	}
}

func restoring(w *world, _ *corev1.Pod) {
	w.change("prod", func(ns *corev1.Namespace) { ns.Labels[api.LabelRestoring] = api.RestoringTrue })
	w.where["c-0"] = "monday"
}

func refused(w *world, _ *corev1.Pod) {
	w.fails = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "c-0", errors.New("a policy does not like it"))
}
