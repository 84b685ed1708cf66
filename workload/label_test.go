package workload_test

import (
	"testing"

	"github.com/stategraft/stategraft/workload"
)

// TestContradiction has a label name one database where the pod is another: its
// backup, or its restore, would be of the wrong one.
func TestContradiction(t *testing.T) {
	for kind, want := range map[string]workload.Reason{"cassandra": "", "anna": workload.ReasonBadAnnotation, "cloudburst": workload.ReasonBadAnnotation} {
		pod, err := workload.Parse([]byte(`{"metadata":{"name":"db-0","labels":{"stategraft.io/workload":"` + kind + `"}},"spec":{
			"volumes":[{"name":"data","emptyDir":{}}],"containers":[{"name":"cassandra","image":"cassandra:4.1","ports":[{"containerPort":9042}],
			"volumeMounts":[{"name":"data","mountPath":"/var/lib/cassandra"}]}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		if d := workload.Recognize(pod, workload.Hints{NamespaceLabelled: true}); d.Reason != want {
			t.Errorf("%s: %s (%s) %s", kind, d.Verdict, d.Reason, d.Message)
		}
	}
}
