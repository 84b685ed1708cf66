package controlplane

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// TestLargePods creates pods as large as the API server takes them.
func TestLargePods(t *testing.T) {
	ctx, rig := start(t)
	const in = "large"
	namespace(ctx, t, in, labelled(), nil)
	long := strings.Repeat("x", 200_000)
	for _, c := range []struct {
		name   string
		change func(*testing.T, *unstructured.Unstructured)
		reason workload.Reason // empty where it is injected
	}{
		{"1,500 variables", func(t *testing.T, pod *unstructured.Unstructured) {
			containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
			first := containers[0].(map[string]any)
			env, _ := first["env"].([]any)
			for i := range 1500 {
				env = append(env, map[string]any{"name": fmt.Sprintf("VARIABLE_%d", i), "value": "x"})
			}
			first["env"] = env
			if err := unstructured.SetNestedSlice(pod.Object, containers, "spec", "containers"); err != nil {
				t.Fatal(err)
			}
		}, ""},
		{"an annotation of 200 kB", func(_ *testing.T, pod *unstructured.Unstructured) { annotate(pod, "example.com/x", long) }, ""},
		{"an annotation of ours of 200 kB", func(_ *testing.T, pod *unstructured.Unstructured) { annotate(pod, api.AnnotationMedusaImage, long) },
			workload.ReasonBadAnnotation},
		{"a misspelt annotation of 200 kB", func(_ *testing.T, pod *unstructured.Unstructured) { annotate(pod, api.Group+"/medusa-imag", long) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := readPod(t, filepath.Join(rig.Root, "test", "corpus", "pods", "plain-official-41.yaml"))
			c.change(t, pod)
			got, told := mustCreate(ctx, t, in, pod)
			if injected := !addedTo(typed(t, got)).none(); injected != (c.reason == "") {
				t.Errorf("added %+v", addedTo(typed(t, got)))
			}
			if c.reason != "" && !strings.Contains(strings.Join(told, "\n"), string(c.reason)) {
				t.Errorf("no %s in the warnings %.500q", c.reason, told)
			}
			for _, text := range told {
				if len(text) > 256 { // the API server's own limit of what it passes on well
					t.Errorf("a warning of %d bytes: %.300s", len(text), text)
				}
			}
		})
	}
}

// TestMetrics reads the webhook's metrics after some decisions: each label has a
// value of a closed set.
func TestMetrics(t *testing.T) {
	ctx, rig := start(t)
	const in = "metrics"
	namespace(ctx, t, in, labelled(), nil)
	for _, name := range []string{"plain-official-41", "decoy-reaper", "plain-official-novolume", "anna-memory"} {
		mustCreate(ctx, t, in, readPod(t, filepath.Join(rig.Root, "test", "corpus", "pods", name+".yaml")))
	}
	series := 0
	text := metricsText(ctx, t)
	for line := range strings.Lines(text) {
		labels, ok := strings.CutPrefix(line, "stategraft_admission_total{")
		if !ok {
			continue
		}
		series++
		var decision, kind, reason string
		for _, label := range strings.Split(labels[:strings.Index(labels, "}")], ",") {
			name, value, _ := strings.Cut(label, "=")
			value = strings.Trim(value, `"`)
			switch name {
			case "decision":
				decision = value
			case "kind":
				kind = value
			case "reason":
				reason = value
			default:
				t.Errorf("label %s", name)
			}
		}
		if !slices.Contains([]string{"inject", "skip", "refuse"}, decision) ||
			!slices.Contains([]string{"", "cassandra", "anna", "cloudburst"}, kind) ||
			(reason != "" && !slices.Contains(workload.Reasons, workload.Reason(reason))) || (reason == "") != (decision == "inject") {
			t.Errorf("unknown labels: %s", line)
		}
	}
	if series < 4 {
		t.Errorf("%d series of stategraft_admission_total after four decisions", series)
	}
	if !strings.Contains(text, `stategraft_admission_duration_seconds_bucket{le="0.0001"}`) {
		t.Error("no latency from 100 µs on")
	}
}
