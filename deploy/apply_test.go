package deploy_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/deploy"
)

// Without helm: applying the manifests again, or the other one, undoes nothing
// that others filled in.
func TestApplyingAgainUndoesNothing(t *testing.T) {
	cp := applied(t, deploy.CertManager)
	fillIn(t, cp)
	for name, manifest := range map[string][]byte{"the same": deploy.CertManager, "the other": deploy.SelfSigned} {
		kubectl(t, cp, string(manifest), "apply", "-f", "-")
		t.Run(name, func(t *testing.T) { stillFilledIn(t, cp) })
	}
}

// What is applied again unchanged is called so, but for the PodDisruptionBudgets:
// their selector is always replaced (patchStrategy in k8s.io/api/policy/v1), so
// kubectl sends a patch, which changes nothing.
func TestApplyingAgainChangesNothing(t *testing.T) {
	cp := applied(t, deploy.CertManager)
	out := kubectl(t, cp, string(deploy.CertManager), "apply", "-f", "-")
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if !strings.HasSuffix(line, " unchanged") && !strings.HasPrefix(line, "poddisruptionbudget.policy/") {
			t.Error(line)
		}
	}
	budgets, err := client(t, cp, "").PolicyV1().PodDisruptionBudgets(home).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(budgets.Items) != 2 {
		t.Fatalf("%d budgets: %v", len(budgets.Items), err)
	}
	for _, b := range budgets.Items {
		if b.Generation != 1 {
			t.Errorf("PodDisruptionBudget %s was changed: generation %d", b.Name, b.Generation)
		}
	}
}

// The program takes the arguments that the chart gives it, and knows the objects
// by the names that they have in the chart.
func TestProgramTakesItsArguments(t *testing.T) {
	helm(t) // skips where nothing is to be built
	program := buildProgram(t)
	for _, name := range []string{"defaults", "self-signed", "everything"} {
		for _, d := range deployments(t, rendered(t, valueSets[name].args...)) {
			args := append(d.Spec.Template.Spec.Containers[0].Args, "--help")
			if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %v\n%s", name, args, err, out)
			}
		}
	}
	out, err := exec.CommandContext(t.Context(), program, "controller", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for flag, value := range map[string]string{
		"webhook-service": `"stategraft-webhook"`, "webhook-configuration": `"stategraft"`, "leader-elect": "true",
	} {
		if !defaultIs(string(out), flag, value) {
			t.Errorf("--%s is not %s by default:\n%s", flag, value, out)
		}
	}
}

// defaultIs looks a flag up in the text of --help.
func defaultIs(help, flag, value string) bool {
	for line := range strings.Lines(help) {
		if strings.Contains(line, "--"+flag+" ") {
			return strings.Contains(line, fmt.Sprintf("(default %s)", value))
		}
	}
	return false
}
