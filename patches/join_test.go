package patches_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

func encode(v any) []byte {
	text, err := json.Marshal(v)
	must(err)
	return text
}

const joining = "-Dcassandra.initial_token=-9223372036854775808,7 -Dcassandra.auto_bootstrap=false"

func remote(s *patches.Settings) {
	pending(func(o *api.Order) {
		o.Mode, o.Node, o.Tokens = api.Remote, "x-1", []string{"-9223372036854775808", "7"}
	})(s)
}

// environment is what the kubelet makes of a container's variables: in order, each may
// refer to those before, the last of a name wins, and one whose optional source is
// not there is left out (k8s.io/kubernetes pkg/kubelet/kubelet_pods.go).
func environment(env []corev1.EnvVar, envFrom map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range envFrom {
		out[name] = value
	}
	for _, v := range env {
		text := v.Value
		switch {
		case text != "":
			for name, value := range out {
				text = strings.ReplaceAll(text, "$("+name+")", value)
			}
		case v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil:
			continue
		case v.ValueFrom != nil:
			text = "of-a-field"
		}
		out[v.Name] = text
	}
	return out
}

// What reaches the JVM has the tokens at its end and all that was there before them.
func TestJoin(t *testing.T) {
	for _, c := range []struct {
		what, container  string
		envFrom          map[string]string
		variable, before string
	}{
		{"no variables", "", nil, "JVM_EXTRA_OPTS", ""},
		{"null", `"env":null`, nil, "JVM_EXTRA_OPTS", ""},
		{"none", `"env":[]`, nil, "JVM_EXTRA_OPTS", ""},
		{"others", `"env":[{"name":"A","value":"b"}]`, nil, "JVM_EXTRA_OPTS", ""},
		{"some", `"env":[{"name":"JVM_EXTRA_OPTS","value":"-Xms4g -Xmx4g"},{"name":"A","value":"b"}]`, nil, "JVM_EXTRA_OPTS", "-Xms4g -Xmx4g "},
		{"twice", `"env":[{"name":"JVM_EXTRA_OPTS","value":"-Da=b"},{"name":"JVM_EXTRA_OPTS","value":"$(JVM_EXTRA_OPTS) -Dc=d"}]`, nil, "JVM_EXTRA_OPTS", "-Da=b -Dc=d "},
		{"other tokens", `"env":[{"name":"JVM_EXTRA_OPTS","value":"-Dcassandra.initial_token=5 -Dcassandra.auto_bootstrap=false"}]`, nil, "JVM_EXTRA_OPTS", "-Dcassandra.initial_token=5 -Dcassandra.auto_bootstrap=false "},
		{"empty", `"env":[{"name":"JVM_EXTRA_OPTS"}]`, nil, "JVM_EXTRA_OPTS", " "},
		{"of a field", `"env":[{"name":"JVM_EXTRA_OPTS","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['x']"}}}]`, nil, "JVM_EXTRA_OPTS", "of-a-field "},
		{"of a Secret that is not there", `"env":[{"name":"A","value":"b"},{"name":"JVM_EXTRA_OPTS","valueFrom":{"secretKeyRef":{"name":"s","key":"k","optional":true}}}]`, nil, "JVM_EXTRA_OPTS", " "},
		{"of a ConfigMap as a whole", `"envFrom":[{"configMapRef":{"name":"c"}}]`, map[string]string{"JVM_EXTRA_OPTS": "-Da=b"}, "JAVA_TOOL_OPTIONS", ""},
		{"not known, some", `"image":"me/cassandra-own","env":[{"name":"JAVA_TOOL_OPTIONS","value":"-javaagent:x.jar"}]`, nil, "JAVA_TOOL_OPTIONS", "-javaagent:x.jar "},
		{"instaclustr", `"image":"gcr.io/cassandra-operator/cassandra-3.11.9:1"`, nil, "JVM_OPTS", ""},
	} {
		raw := pod("", c.container)
		p, _ := graft(t, raw, settings(remote)) // twice is once
		main := p.Spec.Containers[0]
		got := environment(main.Env, c.envFrom)
		if got[c.variable] != c.before+joining {
			t.Errorf("%s: %s is %q, want %q", c.what, c.variable, got[c.variable], c.before+joining)
		}
		for name, value := range c.envFrom {
			if got[name] != value {
				t.Errorf("%s: %s became %q", c.what, name, got[name])
			}
		}
		for _, other := range p.Spec.Containers[1:] {
			if strings.Contains(string(encode(other.Env)), "initial_token") {
				t.Errorf("%s: tokens in %s", c.what, other.Name)
			}
		}
	}
}

// An init container that already starts the database would join first.
func TestJoinBeforeTheDatabase(t *testing.T) {
	p, _ := graft(t, pod(`"initContainers":[{"name":"a"},{"name":"commitlog-replayer","env":[{"name":"X","value":"y"}]},{"name":"b"}]`, ""), settings(remote))
	for _, c := range p.Spec.InitContainers {
		if has := environment(c.Env, nil)["JAVA_TOOL_OPTIONS"] == joining; has != (c.Name == "commitlog-replayer") {
			t.Errorf("%s: variables %v", c.Name, c.Env)
		}
	}
}

// Only a node that is given another's data joins with its tokens.
func TestJoinsOnly(t *testing.T) {
	for what, change := range map[string]func(*api.Order){
		"in place": func(o *api.Order) { o.Mode = api.InPlace }, "empty": func(o *api.Order) { o.Action = api.ActionEmpty },
		"undo": func(o *api.Order) { o.Action = api.ActionUndo }, "not pending": func(o *api.Order) { o.Pending, o.Tidy = false, true },
	} {
		p, _ := graft(t, pod("", ""), settings(func(s *patches.Settings) { remote(s); change(&s.Order) }))
		if len(p.Spec.Containers[0].Env) > 0 {
			t.Errorf("%s: variables %v", what, p.Spec.Containers[0].Env)
		}
	}
}
