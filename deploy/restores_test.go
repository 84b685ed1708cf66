package deploy_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/test/cluster"
)

// restoresOnly applies the CustomResourceDefinition alone, and answers a client for
// Restores in a new namespace.
func restoresOnly(t *testing.T, ns string) (*cluster.ControlPlane, dynamic.ResourceInterface) {
	t.Helper()
	crd, err := deploy.Pick(deploy.SelfSigned, "CustomResourceDefinition")
	if err != nil {
		t.Fatal(err)
	}
	cp := applied(t, crd)
	namespace(t, cp, ns, nil)
	return cp, restoresIn(t, cp, ns)
}

func restoresIn(t *testing.T, cp *cluster.ControlPlane, ns string) dynamic.ResourceInterface {
	t.Helper()
	return dynamicClient(t, cp).Resource(api.GroupVersion.WithResource("restores")).Namespace(ns)
}

// restoreOf is a Restore with a spec in YAML.
func restoreOf(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.UnmarshalStrict([]byte("{spec: {"+spec+"}}"), &u.Object); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	u.SetGroupVersionKind(api.GroupVersion.WithKind("Restore"))
	u.SetName(name)
	return u
}

// TestRestoreRules has the API server judge Restores: each rule with what it takes
// and what it refuses, and the remedy that it names.
func TestRestoreRules(t *testing.T) {
	_, restores := restoresOnly(t, "restore-rules")
	const (
		pods, which  = "pods: {names: [db-0]}", "say which pods"
		one          = "give either backup"
		backupTakes  = "it takes the name of a backup, latest, or a time"
		deadline     = "it takes a time longer than nothing"
		operator     = "the operator of an expression"
		everyPod     = "an empty selector would be every pod"
		emptySource  = "an empty source says nothing"
		noSource     = "undo takes nothing from a backup: leave source out"
		namesOfPods  = "they are names of pods of this namespace"
		earlier      = "it takes the name of an earlier Restore"
		clusterTakes = "a slash and its cluster's name"
		prefixTakes  = "it takes [storage] prefix"
		nodesTake    = "it takes the name of a node of the backup for each pod"
	)
	for _, c := range []struct{ spec, want string }{ // want is in the refusal; empty for none
		{"backup: b1, " + pods, ""},
		{"undo: earlier", ""},
		{"undo: earlier, " + pods, ""},
		{pods, one},
		{"backup: b1, undo: earlier, " + pods, one},
		{`backup: "", ` + pods, "at least 1 chars"},
		{"backup: latest, " + pods, ""},
		{`backup: "2026-01-31T06:00:00Z", ` + pods, ""},
		{`backup: "2026-01-31T06:00:00+01:00", ` + pods, ""},
		{"backup: nightly_2.1-x, " + pods, ""},
		{"backup: a/b, " + pods, backupTakes},
		{"backup: a..b, " + pods, backupTakes},
		{"backup: -a, " + pods, backupTakes},
		{`backup: "a b", ` + pods, backupTakes},
		{`backup: "a\n", ` + pods, backupTakes},
		{"backup: " + strings.Repeat("b", 253) + ", " + pods, ""},
		{"backup: " + strings.Repeat("b", 254) + ", " + pods, "253"},
		{"undo: Earlier", earlier},
		{"undo: a/b", earlier},
		{"undo: r", "cannot undo itself"},
		{"backup: b1", which},
		{"backup: b1, pods: {}", which},
		{"backup: b1, pods: {names: []}", "at least 1 items"},
		{"backup: b1, pods: {names: [db-0, db-1, db.2]}", ""},
		{"backup: b1, pods: {names: [db-0, db-0]}", "Duplicate value"},
		{"backup: b1, pods: {names: [pod/db-0]}", namesOfPods},
		{"backup: b1, pods: {names: [DB-0]}", namesOfPods},
		{"backup: b1, pods: {names: [db-0-]}", namesOfPods},
		{"backup: b1, pods: {names: [" + strings.Repeat("d", 254) + "]}", "253"},
		{"backup: b1, pods: {names: [" + numbered("db-", 1000) + "]}", ""},
		{"backup: b1, pods: {names: [" + numbered("db-", 1001) + "]}", "1000"},
		{"backup: b1, pods: {selector: {matchLabels: {app: db}}}", ""},
		{"backup: b1, pods: {selector: {matchExpressions: [{key: app, operator: In, values: [db]}]}}", ""},
		{"backup: b1, pods: {selector: {matchExpressions: [{key: app, operator: Exists}]}}", ""},
		{"backup: b1, pods: {selector: {}}", everyPod},
		{"backup: b1, pods: {selector: {matchLabels: {}}}", everyPod},
		{"backup: b1, pods: {selector: {matchExpressions: []}}", everyPod},
		{"backup: b1, pods: {selector: {matchExpressions: [{key: app, operator: Is, values: [db]}]}}", operator},
		{"backup: b1, pods: {selector: {matchExpressions: [{key: app, operator: In}]}}", operator},
		{"backup: b1, pods: {selector: {matchExpressions: [{key: app, operator: NotIn, values: []}]}}", operator},
		{"backup: b1, pods: {selector: {matchExpressions: [{key: app, operator: Exists, values: [db]}]}}", operator},
		{"backup: b1, pods: {names: [db-0], selector: {matchLabels: {app: db}}}", "give either names or selector"},
		{"backup: b1, mode: InPlace, " + pods, ""},
		{"backup: b1, mode: Elsewhere, " + pods, "InPlace"},
		{"backup: b1, mode: Remote, source: {cluster: prod/Test Cluster}, " + pods, ""},
		{`backup: b1, mode: Remote, source: {prefix: ""}, ` + pods, ""},
		{"backup: b1, mode: Remote, source: {prefix: prod}, " + pods, ""},
		{"backup: b1, mode: Remote, source: {nodes: {db-0: cassandra-0}}, " + pods, ""},
		{"backup: b1, source: {prefix: prod, nodes: {db-0: cassandra-0}}, " + pods, ""},
		{"backup: b1, mode: Remote, " + pods, "say whose in source.cluster"},
		{"undo: earlier, mode: Remote, source: {prefix: a}", "leave mode at InPlace"},
		{"undo: earlier, source: {prefix: a}", noSource},
		{"undo: earlier, whenNoBackup: Empty", "leave whenNoBackup out"},
		{"undo: earlier, whenNoBackup: Fail, keepPrevious: Always", ""},
		{"backup: b1, source: {}, " + pods, emptySource},
		{"backup: b1, source: {prefix: a, cluster: b}, " + pods, "give either cluster or prefix"},
		{"backup: b1, source: {prefix: a/b}, " + pods, prefixTakes},
		{"backup: b1, source: {prefix: ..}, " + pods, prefixTakes},
		{"backup: b1, source: {cluster: A/b}, " + pods, clusterTakes},
		{"backup: b1, source: {cluster: ..}, " + pods, clusterTakes},
		{`backup: b1, source: {cluster: ""}, ` + pods, "at least 1 chars"},
		{"backup: b1, source: {nodes: {}}, " + pods, "at least 1 properties"},
		{`backup: b1, source: {nodes: {db-0: ""}}, ` + pods, nodesTake},
		{`backup: b1, source: {nodes: {"": cassandra-0}}, ` + pods, nodesTake},
		{"backup: b1, source: {nodes: {db-0: " + strings.Repeat("c", 254) + "}}, " + pods, nodesTake},
		{"backup: b1, whenNoBackup: Empty, " + pods, ""},
		{"backup: b1, whenNoBackup: Skip, " + pods, "Empty"},
		{"backup: b1, keepPrevious: Never, " + pods, ""},
		{"backup: b1, keepPrevious: Sometimes, " + pods, "IfRoom"},
		{"backup: b1, parallel: 3, " + pods, ""},
		{"backup: b1, parallel: -1, " + pods, "greater than or equal to 0"},
		{"backup: b1, deadline: 6h, " + pods, ""},
		{"backup: b1, deadline: 1h30m0.5s, " + pods, ""},
		{"backup: b1, deadline: 999999h999999h, " + pods, ""},
		{"backup: b1, deadline: 0s, " + pods, deadline},
		{"backup: b1, deadline: -6h, " + pods, deadline},
		{`backup: b1, deadline: "6", ` + pods, deadline},
		{"backup: b1, deadline: 2d, " + pods, deadline},
		{`backup: b1, deadline: "", ` + pods, deadline},
		{"backup: b1, deadline: 999999h999999h999999h, " + pods, "20"},
		{"backup: b1, dryRun: true, suspend: true, cancel: true, " + pods, ""},
		{"backup: b1, bakcup: b2, " + pods, "unknown field"},
	} {
		_, err := restores.Create(t.Context(), restoreOf(t, "r", c.spec), metav1.CreateOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
		spec := c.spec[:min(len(c.spec), 120)]
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: refused: %v", spec, err)
		case c.want == "":
		case err == nil:
			t.Errorf("%s: accepted", spec)
		case !strings.Contains(err.Error(), c.want) || !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err):
			t.Errorf("%s: %q is not in: %v", spec, c.want, err)
		case strings.Contains(err.Error(), "evaluation error") || strings.Contains(err.Error(), "no such key"):
			t.Errorf("%s: a rule itself fails: %v", spec, err)
		}
	}
}

// What is left out is filled in by the API server, so that it can be read there.
func TestRestoreDefaults(t *testing.T) {
	_, restores := restoresOnly(t, "restore-defaults")
	made, err := restores.Create(t.Context(), restoreOf(t, "r", "backup: b1, pods: {names: [db-0]}"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec := made.Object["spec"].(map[string]any)
	for key, want := range map[string]string{"mode": "InPlace", "whenNoBackup": "Fail", "keepPrevious": "IfRoom", "deadline": "24h"} {
		if spec[key] != want {
			t.Errorf("%s is %v, want %s", key, spec[key], want)
		}
	}
}

// numbered is a list of n names.
func numbered(prefix string, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + strings.Repeat("x", 100) + string(rune('a'+i/100)) + string(rune('a'+i/10%10)) + string(rune('a'+i%10))
	}
	return strings.Join(names, ", ")
}

// The examples are what the API server takes.
func TestExamplesOfRestores(t *testing.T) {
	_, restores := restoresOnly(t, "restore-examples")
	n := 0
	for _, d := range examples(t) {
		u, ok := d.object.(*unstructured.Unstructured)
		if !ok || u.GetKind() != "Restore" {
			continue
		}
		n++
		u = u.DeepCopy()
		u.SetNamespace("restore-examples")
		if _, err := restores.Create(t.Context(), u, metav1.CreateOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict}); err != nil {
			t.Errorf("%s: %v", d.file, err)
		}
	}
	if n == 0 {
		t.Error("there are none")
	}
}
