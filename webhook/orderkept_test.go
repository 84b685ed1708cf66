package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// policy is what restore-pending.stategraft.io asks of a pod in status.pending
// (deploy/chart/templates/admission/restore-pending-policy.yaml), in its words.
func policy(spec *corev1.PodSpec, id string) bool {
	return id != "" && slices.ContainsFunc(spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == "stategraft-restore" &&
			(c.RestartPolicy == nil || *c.RestartPolicy != "Always") &&
			slices.ContainsFunc(c.Command, func(a string) bool { return strings.HasSuffix(a, "/stategraft-agent") }) &&
			slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "STATEGRAFT_RESTORE_ID" }) &&
			!slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "STATEGRAFT_RESTORE_ID" && e.Value != id })
	})
}

// orderKept checks a pod that was injected: with a pending order it is one that the
// policy lets through, that waits for the others, and that joins with its tokens;
// without one it has none of that.
func orderKept(in Input, out Outcome, result []byte) error {
	var pod corev1.Pod
	if err := json.Unmarshal(result, &pod); err != nil {
		return nil // a pod that no API server would send
	}
	order := in.order(pod.Name)
	added := func(path string) bool {
		return slices.ContainsFunc(operations(out), func(p string) bool { return strings.Contains(p, path) })
	}
	switch {
	case !order.Pending && (added("/schedulingGates") || added("/env")):
		return fmt.Errorf("without a pending order: %s", operationsOf(out))
	case !order.Pending:
		return nil
	case !policy(&pod.Spec, order.ID):
		return fmt.Errorf("the policy would refuse it")
	case !slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == api.GateRestore }):
		return fmt.Errorf("it does not wait for the others")
	}
	if order.Mode != api.Remote || order.Action != api.ActionRestore || out.Workload.Kind != workload.KindCassandra {
		return nil
	}
	main := &pod.Spec.Containers[out.Workload.Index]
	last := map[string]string{}
	for _, v := range main.Env {
		last[v.Name] = v.Value
	}
	want := "-Dcassandra.initial_token=" + strings.Join(order.Tokens, ",") + " -Dcassandra.auto_bootstrap=false"
	if !slices.ContainsFunc(slices.Collect(maps.Values(last)), func(text string) bool { return strings.HasSuffix(text, want) }) {
		return fmt.Errorf("it would not join with its tokens: %v", main.Env)
	}
	return nil
}

func operations(out Outcome) (paths []string) {
	for _, op := range out.Patch.Operations {
		paths = append(paths, op.Path)
	}
	return paths
}

// order makes an order for a pod, mostly one that is pending.
func (g generator) order() api.Order {
	o := api.Order{Restore: "r", ID: "r/" + pick(g, "0123456789ab", "cba987654321"), Pending: g.chance(80), Tidy: g.chance(40),
		Action: pick(g, api.ActionRestore, api.ActionRestore, api.ActionEmpty, api.ActionUndo), Backup: "nightly",
		Node: pick(g, "", "db-0", "x-1"), Prefix: pick(g, "", "ns-x"), Mode: pick(g, api.InPlace, api.Remote),
		Keep: pick(g, "", api.KeepAlways, api.KeepIfRoom, api.KeepNever)}
	if o.Action == api.ActionUndo {
		o.UndoID = "before/0"
	}
	for range g.IntN(4) {
		o.Tokens = append(o.Tokens, fmt.Sprint(int64(g.Uint64())))
	}
	return o
}

// ordered has one order for every pod.
func ordered(o api.Order) func(string, string) (api.Order, bool) {
	return func(string, string) (api.Order, bool) { return o, o.Pending || o.Tidy }
}

// orderVariants are the orders under which every pod of the corpus is looked at.
var orderVariants = map[string]api.Order{
	"in-place": {Restore: "r", ID: "r/1", Pending: true, Action: api.ActionRestore, Backup: "nightly", Node: "other-0", Keep: api.KeepIfRoom},
	"remote":   {Restore: "r", ID: "r/1", Pending: true, Action: api.ActionRestore, Backup: "nightly", Mode: api.Remote, Tokens: []string{"-1", "5"}},
	"empty":    {Restore: "r", ID: "r/1", Pending: true, Action: api.ActionEmpty, Mode: api.Remote},
	"undo":     {Restore: "r", ID: "r/2", Pending: true, Action: api.ActionUndo, UndoID: "r/1"},
	"tidy":     {Restore: "r", ID: "r/1", Tidy: true},
}

// TestCorpusOrders holds each pod of the corpus, with an order, to what has to hold
// for every pod: one with a pending order is injected with it, or refused.
func TestCorpusOrders(t *testing.T) {
	injected := 0
	for name, raw := range corpus(t) {
		for variant, order := range orderVariants {
			in := Input{Pod: raw, Namespace: labelled(), Config: DefaultConfig(), NativeSidecars: true, Order: ordered(order)}
			if name == "bitnami" || name == "openshift-scc" { // so that those count, too
				in.Config = mustConfig(t, "medusa: {anyUIDImage: 'mirror.local/medusa-any:1'}")
			}
			out := Decide(in)
			if err := holds(raw, in, out); err != nil {
				t.Errorf("%s, %s: %v", name, variant, err)
			}
			if out.Patch != nil {
				injected++
				injectedPod(t, raw, out, "order")
			}
			if order.Pending && hasName(t, raw) && out.Verdict == workload.Skip && out.Reason != workload.ReasonAlreadyInjected {
				t.Errorf("%s, %s: admitted as it was (%s)", name, variant, out.Reason)
			}
		}
	}
	if injected < 100 {
		t.Errorf("only %d were injected", injected)
	}
}

// hasName tells whether the pod has a name of its own: others have no order.
func hasName(tb testing.TB, raw []byte) bool {
	tb.Helper()
	metadata, _ := mustTree(tb, raw)["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name != ""
}

func mustConfig(tb testing.TB, text string) *Config {
	tb.Helper()
	config, err := ParseConfig([]byte("apiVersion: " + ConfigVersion + "\nkind: " + ConfigKind + "\n" + text))
	if err != nil {
		tb.Fatal(err)
	}
	return config
}
