package check_test

import (
	"strings"

	"github.com/stategraft/stategraft/operations/check"
)

// stuck has a Restore that failed and keeps a pod from starting, and one that nobody
// has taken up.
func stuck(r rig) {
	kubectl := func(in string, args ...string) {
		r.Helper()
		if out, err := r.Kubectl(r.ctx, strings.NewReader(in), args...); err != nil {
			r.Fatalf("%v: %s", err, out)
		}
	}
	kubectl(`{"apiVersion": "stategraft.io/v1alpha1", "kind": "Restore", "metadata": {"namespace": "old", "name": "monday"},
		"spec": {"backup": "nightly", "pods": {"names": ["ring-0"]}}}`, "apply", "-f", "-")
	report, _, _ := r.run("", "-n", "old", "--only", "restores")
	r.want(report, "restores", check.OK, "", "1 Restore, and none that is stuck")
	kubectl("", "-n", "old", "patch", "restore", "monday", "--subresource=status", "--type=merge", "-p",
		`{"status": {"id": "monday/1", "phase": "Failed", "message": "the deadline is over", "pending": ["ring-0"]}}`)
	report, status, _ := r.run("")
	if status != 1 {
		r.Errorf("status %d", status)
	}
	r.want(report, "restores", check.Fail, "old/monday", "failed (kept from starting: ring-0): the deadline is over")
	kubectl("", "-n", "old", "delete", "restore", "monday")
}

// noCRD takes the CustomResourceDefinition away. What an API server does then with
// pods is the manifest's tests' business.
func noCRD(r rig) {
	if out, err := r.Kubectl(r.ctx, nil, "delete", "crd", "restores.stategraft.io"); err != nil {
		r.Fatalf("%v: %s", err, out)
	}
	report, status := r.eventually("restore-crd", check.Fail, "restores.stategraft.io", "refuses every pod of namespaces with a Restore under way")
	if status != 1 {
		r.Errorf("status %d", status)
	}
	r.want(report, "restores", check.Info, "", "there is no restores.stategraft.io")
}
