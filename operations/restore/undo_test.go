package restore

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// TestUndoOfTheInterrupted: what was cancelled while it replaced data has kept those
// from before, and the volume knows it (agent/restore/undo.go), whatever the status
// says.
func TestUndoOfTheInterrupted(t *testing.T) {
	interrupted := earlier(api.RestoreCancelled, func(e *api.Restore) {
		e.Status.Pods[0].Previous, e.Status.Pods[0].Phase, e.Status.Pods[0].Started = false, api.PodRestoring, new(metav1.NewTime(today.Add(-1)))
		e.Status.Pods[1].Previous, e.Status.Pods[1].Phase = false, api.PodWaiting
	})
	kept := report("cas-0", func(r *node.Report) { r.Previous = []node.Previous{{ID: "before/1"}} })
	if names, p := Accept(facts(1, 3, interrupted)); p != nil || len(names) != 1 {
		t.Errorf("accepted are %v, %+v", names, p)
	}
	if plan, _, p := Plan(facts(1, 3, interrupted, kept)); p != nil || len(plan) != 1 {
		t.Errorf("planned are %v, %+v", plan, p)
	}
	if _, _, p := Plan(facts(1, 3, interrupted)); !problemIs(p, ReasonNoPrevious) {
		t.Errorf("whose volume has kept nothing: %+v", p)
	}
	if _, p := Accept(facts(2, 3, interrupted)); !problemIs(p, ReasonNotUndoable) || !strings.Contains(p.Message, "of cas-1") {
		t.Errorf("a pod that was not begun: %+v", p)
	}
	f := facts(1, 3, interrupted)
	if names, _ := Asked(&api.Restore{Spec: api.RestoreSpec{Undo: "before"}}, f.Earlier); strings.Join(names, " ") != "cas-0" {
		t.Errorf("without names it is about %v", names)
	}
}

// TestCancelTellsOfPrevious: the data that are kept are told of, to be gone back to, and
// to be tidied up in the end.
func TestCancelTellsOfPrevious(t *testing.T) {
	r := begun(func(r *api.Restore) { r.Spec.Cancel = true }, phaseOf("a", api.PodRestoring))
	r.Status.Pods, r.Status.Pending = r.Status.Pods[:1], r.Status.Pending[:1]
	l, c := liveOn(t, interceptor.Funcs{}, r, coursePod("a", restores("r/1", runs, 0, nil)))
	nodes := &sidecars{reports: map[string]node.Report{"a": {Restore: &node.Progress{ID: "r/1", Phase: node.Replacing}, Previous: []node.Previous{{ID: "r/1"}}}}}
	name := types.NamespacedName{Namespace: "ns", Name: "r"}
	if _, err := reconcilerOn(l, nodes, nil).Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); err != nil {
		t.Fatal(err)
	}
	after := &api.Restore{}
	if err := c.Get(t.Context(), name, after); err != nil {
		t.Fatal(err)
	}
	at := after.Status.Pods[0]
	if !at.Previous || !strings.Contains(at.Message, "DANGER") || !strings.Contains(at.Message, "undo: r") {
		t.Errorf("it is %+v", at)
	}
	if order, ok := after.Order("a"); !ok || !order.Tidy || order.Pending {
		t.Errorf("its order is %+v", order)
	}
}
