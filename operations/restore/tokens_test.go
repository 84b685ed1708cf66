package restore

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/webhook/offline"
	"github.com/stategraft/stategraft/workload"
)

// TestTokensHaveToFit: Cassandra takes other tokens at its first start, and ends at
// the second where their number is not num_tokens.
func TestTokensHaveToFit(t *testing.T) {
	env := func(name, value string) func(*Facts) {
		return pod0(func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: name, Value: value}} })
	}
	for _, c := range []struct {
		what   string
		change []func(*Facts)
		reason string
		says   string
	}{
		{"as many", []func(*Facts){env("CASSANDRA_NUM_TOKENS", "1")}, "", ""},
		{"more", []func(*Facts){env("CASSANDRA_NUM_TOKENS", "16")}, "TokensDiffer", "CASSANDRA_NUM_TOKENS"},
		{"another's variable", []func(*Facts){env("NUM_TOKENS", "16")}, "TokensDiffer", "NUM_TOKENS"},
		{"the configuration of cass-operator", []func(*Facts){pod0(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "server-config-init", Env: []corev1.EnvVar{{Name: "CONFIG_FILE_DATA", Value: `{"cassandra-yaml":{"num_tokens":16}}`}}}}
		})}, "TokensDiffer", "num_tokens"},
		{"not known", nil, "", "num_tokens"},
		{"no token that the JVM could be given", []func(*Facts){backup(func(b *node.Backup) { b.Ring["old-1"] = node.Ring{Rack: "rack1", Tokens: []string{"a b"}} })}, "TokensDiffer", "a b"},
	} {
		_, message, p := Plan(facts(3, 3, append([]func(*Facts){remote(nil)}, c.change...)...))
		if p != nil {
			message = p.Message
		}
		if !problemIs(p, c.reason) || !strings.Contains(message, c.says) {
			t.Errorf("%s: %+v, %s", c.what, p, message)
		}
	}
	if _, message, p := Plan(facts(3, 3, env("CASSANDRA_NUM_TOKENS", "16"))); p != nil || strings.Contains(message, "num_tokens") {
		t.Errorf("in place: %+v, %s", p, message)
	}
}

// TestTokensAreTheWebhooks has tokens judged here and by the webhook, which would
// refuse the pod once it is down.
func TestTokensAreTheWebhooks(t *testing.T) {
	text, err := os.ReadFile("../../test/corpus/pods/plain-official-41.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documents, err := offline.Read(strings.NewReader(string(text)), "pod")
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"0", "-9223372036854775808", "170141183460469231731687303715884105727", "a", "1 -Dx", "", "--1", "1,2", strings.Repeat("1", 41)} {
		order := api.Order{Restore: "r", Pending: true, ID: "r/1", Action: api.ActionRestore, Backup: "b", Node: "n", Mode: api.Remote, Tokens: []string{token}}
		result, err := offline.Decide(documents[0], offline.Options{Namespace: offline.Labelled(), Config: webhook.DefaultConfig(),
			Orders: func(string, string) (api.Order, bool) { return order, true }})
		if err != nil {
			t.Fatal(err)
		}
		if here := fit(factPod("cas-0"), "n", order.Tokens) != nil; here != (result.Verdict == workload.Refuse) {
			t.Errorf("token %q: refused here %v, by the webhook %s: %s", token, here, result.Verdict, result.Message)
		}
	}
}

// TestStatusFits: etcd takes no object of more than 1.5 MiB.
func TestStatusFits(t *testing.T) {
	large := func(pods, tokens int) *Problem {
		f := facts(pods, pods, remote(nil))
		f.Backup = factBackup("nightly")
		for i := range pods {
			name := fmt.Sprintf("old-%d", i)
			b := factBackup("nightly", name)
			b.Ring[name] = node.Ring{Rack: "rack1", Tokens: strings.Split(strings.Repeat("-9223372036854775808 ", tokens-1)+"-9223372036854775808", " ")}
			f.Backup.Members, f.Backup.Nodes, f.Backup.Ring[name] = append(f.Backup.Members, b.Members...), append(f.Backup.Nodes, name), b.Ring[name]
		}
		_, _, p := Plan(f)
		return p
	}
	if p := large(300, 16); p != nil {
		t.Errorf("300 pods of 16 tokens: %+v", p)
	}
	if p := large(300, 256); !problemIs(p, "TooLarge") {
		t.Errorf("300 pods of 256 tokens: %+v", p)
	}
}
