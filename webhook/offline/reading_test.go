package offline_test

import (
	"strings"
	"testing"

	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/webhook/offline"
	"github.com/stategraft/stategraft/workload"
)

// TestReadYAML reads what kubectl reads: merged mappings, and documents that end
// with three dots.
func TestReadYAML(t *testing.T) {
	merged := "apiVersion: v1\nkind: Pod\nmetadata: {name: db-0}\nspec:\n  containers:\n  - &c {name: a, image: x}\n  - {<<: *c, name: b}\n"
	for text, want := range map[string]int{
		merged:                            1,
		podYAML + "...\n" + podYAML:       2,
		podYAML + "...\n":                 1,
		podYAML + "--- # two\n" + podYAML: 2,
		"\ufeff" + podYAML:                1,
		strings.ReplaceAll(podYAML, "\n", "\r\n") + "---\r\n" + podYAML: 2,
	} {
		documents, err := offline.Read(strings.NewReader(text), "f")
		if err != nil || len(documents) != want {
			t.Errorf("%q: %d documents, want %d, %v", text, len(documents), want, err)
		}
	}
}

// TestMisplaced warns of an annotation on a StatefulSet, which nothing reads.
func TestMisplaced(t *testing.T) {
	text := "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db, annotations: {stategraft.io/restore: b1, other: x}}\nspec: {serviceName: db, template: {spec: {containers: [{name: x, image: nginx}]}}}\n"
	documents, err := offline.Read(strings.NewReader(text), "f")
	if err != nil {
		t.Fatal(err)
	}
	result, err := offline.Decide(documents[0], offline.Options{Namespace: offline.Labelled(), Config: webhook.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	if result.Verdict != workload.Skip || len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], "spec.template.metadata.annotations") {
		t.Errorf("%s, warnings %q", result.Verdict, result.Warnings)
	}
}
