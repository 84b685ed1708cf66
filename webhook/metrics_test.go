package webhook

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/stategraft/stategraft/workload"
)

// series gives the labels and value of each series of a metric.
func series(t *testing.T, name string) (labels []map[string]string, values []float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			set := map[string]string{}
			for _, pair := range m.GetLabel() {
				set[pair.GetName()] = pair.GetValue()
			}
			labels = append(labels, set)
			values = append(values, m.GetCounter().GetValue()+m.GetGauge().GetValue()+float64(m.GetHistogram().GetSampleCount()))
		}
	}
	return labels, values
}

func counted(t *testing.T, name string, pairs ...string) (total float64) {
	t.Helper()
	labels, values := series(t, name)
next:
	for i, set := range labels {
		for j := 0; j < len(pairs); j += 2 {
			if set[pairs[j]] != pairs[j+1] {
				continue next
			}
		}
		total += values[i]
	}
	return total
}

// TestMetrics sends what there is and looks at the labels: a metric whose
// labels a user can choose would grow until it fills the memory.
func TestMetrics(t *testing.T) {
	const name, duration = "stategraft_admission_total", "stategraft_admission_duration_seconds"
	h := testHandler(labelled())
	before, measured := counted(t, name), counted(t, duration)
	injected := counted(t, name, "decision", "inject", "reason", "", "kind", "cassandra")
	requests := 0
	send := func(pod []byte, operation admissionv1.Operation) {
		requests++
		serve(t, h, review(t, pod, operation))
	}
	for _, raw := range corpus(t) {
		send(raw, admissionv1.Create)
		send(annotated(t, raw, map[string]string{"stategraft.io/restore": "secret-name"}), admissionv1.Create)
		send(withMetadata(t, raw, "labels", map[string]string{"stategraft.io/workload": "secret-name"}), admissionv1.Create)
		send(raw, admissionv1.Operation("SECRET-NAME"))
	}
	if got := counted(t, name) - before; got != float64(requests) {
		t.Errorf("%d requests, %v counted", requests, got)
	}
	if got := counted(t, duration) - measured; got != float64(requests) {
		t.Errorf("%d requests, %v measured", requests, got)
	}
	if counted(t, name, "decision", "inject", "reason", "", "kind", "cassandra") <= injected {
		t.Error("no injected Cassandra pod is counted")
	}
	labels, _ := series(t, name)
	for _, set := range labels {
		_, kinds := set["kind"]
		reason := workload.Reason(set["reason"])
		switch {
		case len(set) != 3 || !kinds,
			!slices.Contains([]string{"inject", "skip", "refuse"}, set["decision"]),
			(set["decision"] == "inject") != (reason == ""),
			reason != "" && !slices.Contains(workload.Reasons, reason),
			!slices.Contains([]string{"", "cassandra", "anna", "cloudburst"}, set["kind"]):
			t.Errorf("labels %v", set)
		}
	}
}

// A broken configuration shows until it is mended, however often it is read.
func TestCountReload(t *testing.T) {
	good, bad := counted(t, "stategraft_config_reloads_total", "result", "good"), counted(t, "stategraft_config_reloads_total", "result", "bad")
	for _, step := range []struct {
		good   bool
		broken float64
	}{{false, 1}, {false, 1}, {true, 0}, {true, 0}, {false, 1}, {true, 0}} {
		countReload(step.good)
		if got := counted(t, "stategraft_config_broken"); got != step.broken {
			t.Errorf("good %v: broken is %v", step.good, got)
		}
	}
	good, bad = counted(t, "stategraft_config_reloads_total", "result", "good")-good, counted(t, "stategraft_config_reloads_total", "result", "bad")-bad
	if good != 3 || bad != 3 {
		t.Errorf("%v good and %v bad reloads counted", good, bad)
	}
}

// recorded is an Events that keeps what it is told.
type recorded struct{ skipped []string }

func (r *recorded) Unread(namespace string, owner workload.Owner, warning string) {
	r.skipped = append(r.skipped, namespace+"/"+owner.Name+" unread "+warning)
}

func (r *recorded) Skipped(namespace string, owner workload.Owner, d workload.Decision) {
	r.skipped = append(r.skipped, fmt.Sprintf("%s/%s %s %s", namespace, owner.Name, d.Verdict, d.Reason))
}

func TestEvents(t *testing.T) {
	owned := func(raw []byte) []byte {
		pod := mustTree(t, raw)
		pod["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "owner", "uid": "u", "controller": true}}
		return encode(t, pod)
	}
	novolume := withSpec(t, cassandraPod, func(spec map[string]any) { delete(spec, "volumes") })
	for _, c := range []struct {
		what   string
		raw    []byte
		dryRun string
		want   string
	}{
		{"injected", cassandraPod, "false", ""},
		{"wanted", owned(novolume), "false", "cassandra/owner skip data-not-on-volume"},
		{"no dryRun said", owned(novolume), "null", "cassandra/owner skip data-not-on-volume"},
		{"dry run", owned(novolume), "true", ""},
		{"not wanted", owned([]byte(`{"metadata":{},"spec":{"containers":[{"name":"nginx"}]}}`)), "false", ""},
		{"refused", owned(annotated(t, novolume, wantsRestore)), "false", "cassandra/owner refuse data-not-on-volume"},
		{"refused in a dry run", owned(annotated(t, novolume, wantsRestore)), "true", ""},
		{"refused though not wanted", owned(annotated(t, []byte(`{"spec":{"containers":[{"name":"nginx"}]}}`), wantsRestore)), "false", "cassandra/owner refuse not-a-database"},
	} {
		h, events := testHandler(labelled()), &recorded{}
		h.Events = events
		body := strings.Replace(string(review(t, c.raw, admissionv1.Create)), `"dryRun":false`, `"dryRun":`+c.dryRun, 1)
		serve(t, h, []byte(body))
		if got := strings.Join(events.skipped, "; "); got != c.want {
			t.Errorf("%s: events %q, want %q", c.what, got, c.want)
		}
	}
}

// testHandler answers as in a cluster with one namespace.
func testHandler(ns Namespace) *Handler {
	config := DefaultConfig()
	return &Handler{Namespaces: fixedNamespaces{"cassandra": ns}, Config: func() *Config { return config },
		Log: logr.Discard(), NativeSidecars: func() bool { return true }}
}
