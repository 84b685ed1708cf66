package offline_test

import (
	"strings"
	"testing"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook/offline"
	"github.com/stategraft/stategraft/workload"
)

const restoreYAML = "apiVersion: stategraft.io/v1alpha1\nkind: Restore\nmetadata: {name: back, namespace: db}\n" +
	"spec: {backup: latest, pods: {names: [db-0]}}\nstatus: {phase: Planned, backup: nightly, pods: [{name: db-0, phase: Planned, node: db-0}]}\n"

// All pods of the file are pending, whatever namespace they are looked at in.
func TestReadRestore(t *testing.T) {
	orders, err := offline.ReadRestore(strings.NewReader(restoreYAML), "r.yaml")
	if err != nil {
		t.Fatal(err)
	}
	order, ok := orders("", "db-0")
	if !ok || !order.Pending || order.Restore != "back" || order.Backup != "nightly" || !strings.HasPrefix(order.ID, "back/") {
		t.Errorf("found %v: %+v", ok, order)
	}
	if _, ok := orders("db", "db-1"); ok {
		t.Error("another pod has an order")
	}
	options := defaults()
	options.Orders = orders
	result, err := offline.Decide(one(t, podYAML), options)
	if err != nil || result.Verdict != workload.Inject {
		t.Fatalf("%v: %s (%s) %s", err, result.Verdict, result.Reason, result.Message)
	}
	text, err := result.Apply()
	if err != nil || !strings.Contains(string(text), order.ID) || !strings.Contains(string(text), api.GateRestore) {
		t.Errorf("%v: %s", err, text)
	}
	for text, say := range map[string]string{
		"":                              "no document",
		podYAML:                         "has to be one Restore",
		restoreYAML + "---\n" + podYAML: "has to be one Restore",
		restoreYAML[:strings.Index(restoreYAML, "status:")]:             "no plan yet",
		strings.Replace(restoreYAML, "backup: latest", "backup: {}", 1): "r.yaml",
		strings.Replace(restoreYAML, "spec:", "spek:", 1):               "spek",
	} {
		if _, err := offline.ReadRestore(strings.NewReader(text), "r.yaml"); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
