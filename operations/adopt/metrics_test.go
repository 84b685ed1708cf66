package adopt

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// gauge is the value of a metric with one label.
func gauge(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == label {
				return m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

func TestCount(t *testing.T) {
	w := newWorld(t, aPod("a-0", "a", "n"), aPod("a-1", "a", "n"), aPod("b-0", "b", "m"), aPod("d-0", "d", "x"))
	w.out["d-0"] = webhook.Outcome{Decision: workload.Decision{Verdict: workload.Skip, Reason: workload.ReasonOptedOut}}
	w.look()
	allUp(w.one("b-0"))
	w.look()
	w.look() // with the label
	for state, want := range map[string]float64{"adopted": 1, "adopting": 1, "waiting": 1, "failed": 0} {
		if got := gauge(t, "stategraft_adopted_pods", state); got != want {
			t.Errorf("%s: %v, want %v", state, got, want)
		}
	}
	if got := gauge(t, "stategraft_adoption_refused_pods", string(ReasonWaits)); got != 1 {
		t.Errorf("waiting for others: %v", got)
	}
	is(w.one("a-0"), patches.RoleMedusa, waits("ErrImagePull"))
	w.look()
	if got := gauge(t, "stategraft_adopted_pods", "waiting"); got != 2 {
		t.Errorf("waiting: %v", got)
	}
}
