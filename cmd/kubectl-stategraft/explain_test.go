package main

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/operations/ask/adopt"
)

// Of a pod that runs it is said whether it can be adopted, where that is not what the
// decision says already.
func TestExplainLive(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*corev1.Pod)
		args   string
		text   string // of the line; empty for none
		state  adopt.State
	}{
		{"it can be", nil, "", "it can be, as it runs: stategraft-agent-1, stategraft-snapshot-2, stategraft-medusa-3", adopt.StatePossible},
		{"by subPath", bySubPath, "", "cannot be adopted (sub-path): ", adopt.StateCannot},
		{"not ready", func(p *corev1.Pod) { p.Status.Conditions = nil }, "", "waits (not-ready): ", adopt.StateLater},
		{"adopted", graft, "", "adopted: stategraft-agent-1, stategraft-medusa-2", adopt.StateAdopted},
		{"nobody asks any more", begun, "", "is not adopted from now on: its annotation is stategraft.io/adopt=never", adopt.StateOptedOut},
		{"no database", func(p *corev1.Pod) { p.Spec.Containers[0] = corev1.Container{Name: "nginx", Image: "nginx"} }, "", "", ""},
		{"not live", func(p *corev1.Pod) { p.Status = corev1.PodStatus{} }, "", "", ""},
		{"annotated", nil, "--annotation grpc-port=51000", "it can be", adopt.StatePossible},
		{"annotated badly", nil, "--annotation grpc-port=x", "", ""}, // as the decision says
	} {
		change := c.change
		if change == nil {
			change = func(*corev1.Pod) {}
		}
		raw, err := json.Marshal(running(change)[3])
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := run(raw, append([]string{"explain", "-f", "-"}, strings.Fields(c.args)...)...)
		_, line, found := strings.Cut(out, "\n  adoption         ")
		if err != nil || found != (c.text != "") || !strings.HasPrefix(line, c.text) {
			t.Errorf("%s: %v\n%s", c.what, err, out)
		}
		out, _, err = run(raw, append([]string{"explain", "-f", "-", "-o", "json"}, strings.Fields(c.args)...)...)
		got := explained{}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%s: %v: %s", c.what, err, out)
		}
		if err != nil || strings.Count(out, "\n") != 1 || got.Name != "db-0" || (got.Adopt != nil) != (c.text != "") || got.Adopt != nil && got.Adopt.State != c.state {
			t.Errorf("%s: %v, %s", c.what, err, out)
		}
	}
}
