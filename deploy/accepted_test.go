package deploy_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Of what was accepted only suspend and cancel can be changed. Every field of the
// spec is tried, so that a new one is not forgotten.
func TestAcceptedRestoreIsSettled(t *testing.T) {
	_, restores := restoresOnly(t, "restore-accepted")
	const full = "backup: b1, pods: {names: [db-0]}, mode: Remote, source: {prefix: a}, parallel: 2"
	const refusal = "only suspend and cancel can be changed"
	fields := map[string]struct{ spec, patch, want string }{ // spec only where it is not full
		"backup":       {"", `"b2"`, refusal},
		"undo":         {"undo: earlier", `"before"`, refusal},
		"pods":         {"", `{"names":["db-0","db-1"]}`, refusal},
		"mode":         {"", `"InPlace"`, refusal},
		"source":       {"", `{"prefix":"b"}`, refusal},
		"whenNoBackup": {"", `"Empty"`, refusal},
		"keepPrevious": {"", `"Never"`, refusal},
		"parallel":     {"", `1`, refusal},
		"deadline":     {"", `"25h"`, refusal},
		"dryRun":       {"", `true`, refusal},
		"suspend":      {"", `true`, ""},
		"cancel":       {"", `true`, ""},
	}
	for field := range jsonFields(reflect.TypeFor[api.RestoreSpec]()) {
		if _, tried := fields[field]; !tried {
			t.Errorf("spec.%s is not tried here", field)
		}
	}
	more := map[string]struct{ spec, patch, want string }{
		"source, node":           {"", `{"nodes":{"db-0":"c-0"}}`, refusal},
		"source, gone":           {"backup: b1, pods: {names: [db-0]}, source: {prefix: a}", `null`, refusal},
		"backup, gone":           {"", `null`, "give either backup"},
		"parallel, gone":         {"", `null`, refusal},
		"deadline, gone":         {"backup: b1, pods: {names: [db-0]}, deadline: 6h", `null`, refusal}, // the default takes its place
		"deadline, said anew":    {"", `"24h0m0s"`, ""},
		"deadline, in seconds":   {"", `"86400s"`, ""},
		"pods, to a selector":    {"", `{"names":null,"selector":{"matchLabels":{"app":"db"}}}`, refusal},
		"pods, labels":           {"backup: b1, pods: {selector: {matchLabels: {app: db}}}", `{"selector":{"matchLabels":{"app":"db","rack":"1"}}}`, refusal},
		"pods, expressions":      {"backup: b1, pods: {selector: {matchLabels: {app: db}}}", `{"selector":{"matchExpressions":[{"key":"a","operator":"Exists"}]}}`, refusal},
		"pods, other expression": {"backup: b1, pods: {selector: {matchExpressions: [{key: a, operator: Exists}]}}", `{"selector":{"matchExpressions":[{"key":"b","operator":"Exists"}]}}`, refusal},
		"pods, labels instead":   {"backup: b1, pods: {selector: {matchExpressions: [{key: a, operator: Exists}]}}", `{"selector":{"matchExpressions":null,"matchLabels":{"a":"b"}}}`, refusal},
		"pods, none of undo":     {"undo: earlier", `{"names":["db-0"]}`, refusal},
		"pods, nothing of undo":  {"undo: earlier", `{}`, ""},
		"parallel, nothing said": {"backup: b1, pods: {names: [db-0]}", `0`, ""},
		"dryRun, nothing said":   {"", `false`, ""},
	}
	for name, c := range more {
		fields[name] = c
	}
	n := 0
	for name, c := range fields {
		n++
		spec := c.spec
		if spec == "" {
			spec = full
		}
		field, _, _ := strings.Cut(name, ",")
		r := makeRestore(t, restores, fmt.Sprintf("r%d", n), spec)
		patch := fmt.Appendf(nil, `{"spec":{%q:%s}}`, field, c.patch)
		change := func() error {
			_, err := restores.Patch(t.Context(), r.GetName(), types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun})
			return err
		}
		if err := change(); err != nil && c.want == refusal {
			t.Errorf("%s: cannot be changed before it is accepted: %v", name, err)
		}
		accept(t, restores, r.GetName())
		switch err := change(); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %q is not in: %v", name, c.want, err)
		}
	}
}

// The controller writes back what it has read as Go types, which say some of it
// otherwise.
func TestAcceptedRestoreGoesThroughTypes(t *testing.T) {
	_, restores := restoresOnly(t, "restore-types")
	for i, spec := range []string{
		"backup: b1, pods: {names: [db-0]}, parallel: 0, dryRun: false, suspend: false, deadline: 90m",
		"backup: b1, pods: {selector: {matchLabels: {app: db}, matchExpressions: []}}",
		"backup: b1, pods: {selector: {matchLabels: {}, matchExpressions: [{key: app, operator: In, values: [db]}]}}",
		`backup: b1, mode: Remote, source: {prefix: "", nodes: {db-0: c-0}}, pods: {names: [db-0]}`,
		"undo: earlier, pods: {}",
		"undo: earlier",
	} {
		name := fmt.Sprintf("r%d", i)
		makeRestore(t, restores, name, spec)
		accept(t, restores, name)
		u, err := restores.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var r api.Restore
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &r); err != nil {
			t.Fatal(err)
		}
		r.Finalizers = []string{api.Group + "/restore"}
		text, err := json.Marshal(r)
		if err == nil {
			err = json.Unmarshal(text, &u.Object)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := restores.Update(t.Context(), u, metav1.UpdateOptions{DryRun: dryRun}); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		if _, err := restores.UpdateStatus(t.Context(), u, metav1.UpdateOptions{DryRun: dryRun}); err != nil {
			t.Errorf("%s, status: %v", spec, err)
		}
	}
}

func TestCancelledRestoreStaysSo(t *testing.T) {
	_, restores := restoresOnly(t, "restore-cancelled")
	makeRestore(t, restores, "r", "backup: b1, pods: {names: [db-0]}")
	set := func(patch string) error {
		_, err := restores.Patch(t.Context(), "r", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	for _, step := range []struct{ patch, want string }{
		{`{"spec":{"suspend":true}}`, ""},
		{`{"spec":{"suspend":false}}`, ""},
		{`{"spec":{"cancel":true}}`, ""},
		{`{"spec":{"suspend":true}}`, ""},
		{`{"spec":{"cancel":false}}`, "a Restore that was cancelled stays so"},
		{`{"spec":{"cancel":null}}`, "a Restore that was cancelled stays so"},
		{`{"metadata":{"labels":{"a":"b"}}}`, ""},
	} {
		if err := set(step.patch); (err == nil) != (step.want == "") || err != nil && !strings.Contains(err.Error(), step.want) {
			t.Errorf("%s: %v", step.patch, err)
		}
	}
}

// What the controller says in the status is bound too, against its own mistakes.
func TestStatusOfRestoreIsBound(t *testing.T) {
	_, restores := restoresOnly(t, "restore-status")
	makeRestore(t, restores, "r", "backup: b1, pods: {names: [db-0]}")
	set := func(patch string) error {
		_, err := restores.Patch(t.Context(), "r", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	}
	const accepted = `"lastTransitionTime":"2026-01-01T00:00:00Z","reason":"Settled","message":""`
	for _, step := range []struct{ patch, want string }{
		{`{"status":{"pending":["db-0"]}}`, "write status.id before status.pending"},
		{`{"status":{"id":"r/1"}}`, ""},
		{`{"status":{"id":"r/2"}}`, ""}, // the spec may still be another
		{`{"status":{"conditions":[{"type":"Accepted","status":"False",` + accepted + `}]}}`, ""},
		{`{"status":{"conditions":[{"type":"Accepted","status":"True",` + accepted + `}],"pending":["db-0"]}}`, ""},
		{`{"status":{"id":"r/3"}}`, "with the same id"},
		{`{"status":{"id":null,"pending":null}}`, "with the same id"},
		{`{"status":{"conditions":[{"type":"Accepted","status":"False",` + accepted + `}]}}`, "once Accepted is True"},
		{`{"status":{"conditions":null}}`, "once Accepted is True"},
		{`{"status":null}`, "once Accepted is True"},
		{`{"status":{"phase":"Completed","pending":null}}`, ""},
	} {
		if err := set(step.patch); (err == nil) != (step.want == "") || err != nil && !strings.Contains(err.Error(), step.want) {
			t.Errorf("%s: %v", step.patch, err)
		}
	}
}

// makeRestore creates one that has no finalizer, so that its namespace can go.
func makeRestore(t *testing.T, restores dynamic.ResourceInterface, name, spec string) *unstructured.Unstructured {
	t.Helper()
	made, err := restores.Create(t.Context(), restoreOf(t, name, spec), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	return made
}

// accept says in the status what the controller says.
func accept(t *testing.T, restores dynamic.ResourceInterface, name string) {
	t.Helper()
	const patch = `{"status":{"id":"r/1","conditions":[{"type":"Accepted","status":"True","reason":"Settled","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	if _, err := restores.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// jsonFields are the names of a structure's fields in JSON.
func jsonFields(of reflect.Type) map[string]bool {
	all := map[string]bool{}
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		all[name] = true
	}
	return all
}
