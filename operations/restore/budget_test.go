package restore

import (
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestBudget(t *testing.T) {
	app, elsewhere := map[string]string{"app": "cas"}, map[string]string{"app": "web"}
	for _, c := range []struct {
		what     string
		n, total int
		budgets  []policyv1.PodDisruptionBudget
		change   func(*Facts)
		override string
		held     string
	}{
		{"none", 1, 3, nil, nil, "", ""},
		{"of others", 1, 3, []policyv1.PodDisruptionBudget{factBudget("b", 0, 3, elsewhere)}, nil, "", ""},
		{"allows one", 1, 3, []policyv1.PodDisruptionBudget{factBudget("b", 1, 3, app)}, nil, "", ""},
		{"allows none", 1, 3, []policyv1.PodDisruptionBudget{factBudget("b", 0, 3, app)}, nil, "", "PodDisruptionBudget b, which allows 0 disruptions"},
		{"allows one of two", 2, 3, []policyv1.PodDisruptionBudget{factBudget("b", 1, 3, app)}, nil, "", "2 ready pods"},
		{"one of two is down already", 2, 3, []policyv1.PodDisruptionBudget{factBudget("b", 1, 3, app)}, func(f *Facts) { unready(f.Pods[0]) }, "", ""},
		{"all", 3, 3, []policyv1.PodDisruptionBudget{factBudget("b", 1, 3, app)}, nil, "PodDisruptionBudget b", ""},
		{"all, not counted yet", 3, 3, []policyv1.PodDisruptionBudget{factBudget("b", 0, 0, app)}, nil, "PodDisruptionBudget b", ""},
		{"all of the workload, another is in the budget", 3, 3, []policyv1.PodDisruptionBudget{factBudget("b", 1, 6, app)}, nil, "", "allows 1 disruption now"},
		{"two budgets", 3, 3, []policyv1.PodDisruptionBudget{factBudget("a", 1, 3, app), factBudget("b", 1, 6, app)}, nil, "a", "PodDisruptionBudget b"},
		{"no selector matches none", 1, 3, []policyv1.PodDisruptionBudget{{ObjectMeta: metav1.ObjectMeta{Name: "b"}}}, nil, "", ""},
		{"an empty selector matches all", 1, 3, []policyv1.PodDisruptionBudget{factBudget("b", 0, 3, nil)}, nil, "", "PodDisruptionBudget b"},
	} {
		f := facts(c.n, c.total)
		f.Budgets = c.budgets
		if c.change != nil {
			c.change(&f)
		}
		override, held := Budget(f)
		if (override != "") != (c.override != "") || !strings.Contains(override, c.override) {
			t.Errorf("%s: overrides %q", c.what, override)
		}
		if (held != nil) != (c.held != "") || held != nil && (!held.Wait || held.Reason != ReasonDisruptionBudget || !strings.Contains(held.Message, c.held)) {
			t.Errorf("%s: held by %+v", c.what, held)
		}
	}
}
