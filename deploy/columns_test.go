package deploy_test

import (
	"regexp"
	"strings"
	"testing"
)

// TestColumnsOfRestores is what kubectl shows of Restores: how far they are.
func TestColumnsOfRestores(t *testing.T) {
	const ns = "restore-columns"
	cp, restores := restoresOnly(t, ns)
	const spec = "backup: latest, pods: {names: [db-0]}"
	makeRestore(t, restores, "new", spec)
	makeRestore(t, restores, "running", spec)
	say(t, restores, "running", `{"id":"running/1","phase":"Restoring","backup":"nightly-1","pending":["db-0"],"message":"restores db-0","progress":{"pods":"1/3","data":"45%"}}`)
	// By every name that it has.
	for _, name := range []string{"restores", "restore", "sgr", "stategraft"} {
		out := kubectl(t, cp, "", "-n", ns, "get", name)
		for _, want := range []string{
			`(?m)^NAME +BACKUP +MODE +PHASE +PODS +DATA +AGE$`,
			`(?m)^\S*running +nightly-1 +InPlace +Restoring +1/3 +45% +\d+s$`,
			`(?m)^\S*new +InPlace +\d+s$`,
		} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("get %s: %s is not in\n%s", name, want, out)
			}
		}
	}
	if out := kubectl(t, cp, "", "-n", ns, "get", "sgr", "-o", "wide"); !strings.Contains(out, "MESSAGE") || !strings.Contains(out, "restores db-0") {
		t.Errorf("wide:\n%s", out)
	}
	// What the fields are for is said where they are looked up.
	if out := kubectl(t, cp, "", "explain", "restore.spec.keepPrevious"); !strings.Contains(out, "can be undone") {
		t.Errorf("explain:\n%s", out)
	}
}
