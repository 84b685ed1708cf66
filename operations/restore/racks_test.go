package restore

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
)

func TestRackOf(t *testing.T) {
	env := func(name, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: name, Value: value})
		}
	}
	label := func(name, value string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels[name] = value } }
	for _, c := range []struct {
		what   string
		change []func(*corev1.Pod)
		want   string
	}{
		{"StatefulSet", nil, "cas"},
		{"cass-operator", []func(*corev1.Pod){label("cassandra.datastax.com/rack", "r1"), env("CASSANDRA_RACK", "no")}, "r1"},
		{"casskop", []func(*corev1.Pod){label("cassandraclusters.db.orange.com.rack", "r2")}, "r2"},
		{"rook", []func(*corev1.Pod){label("cassandra.rook.io/rack", "r3")}, "r3"},
		{"bitnami", []func(*corev1.Pod){env("CASSANDRA_RACK", "r4")}, "r4"},
		{"DSE", []func(*corev1.Pod){env("RACK", "r5")}, "r5"},
		{"from elsewhere", []func(*corev1.Pod){func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CASSANDRA_RACK", ValueFrom: &corev1.EnvVarSource{}}}
		}}, "cas"},
		{"our own variable", []func(*corev1.Pod){func(p *corev1.Pod) { p.Spec.Containers[1].Env = []corev1.EnvVar{{Name: "RACK", Value: "no"}} }}, "cas"},
	} {
		if got := rackOf(factPod("cas-0", c.change...)); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestPaired(t *testing.T) {
	// Pods and nodes as name@rack.
	for _, c := range []struct {
		what, pods, ring, want string
		says                   []string
	}{
		{"one rack", "cas-1@r cas-0@r", "n-1@x n-0@x", "cas-0=n-0 cas-1=n-1", nil},
		{"by number", "cas-10@r cas-9@r", "n-10@x n-9@x", "cas-9=n-9 cas-10=n-10", nil},
		{"racks by name", "a-0@r1 b-0@r2", "x-0@k2 y-0@k1", "a-0=y-0 b-0=x-0", nil},
		{"the same racks", "a-0@r1 a-1@r1 b-0@r2 b-1@r2", "m-0@r1 m-1@r1 n-0@r2 n-1@r2", "a-0=m-0 a-1=m-1 b-0=n-0 b-1=n-1", nil},
		{"sizes in another order", "a-0@r1 b-0@r2 b-1@r2", "m-0@k1 m-1@k1 n-0@k2", "a-0=n-0 b-0=m-0 b-1=m-1", nil},
		{"fewer", "a-0@r1", "m-0@k1 m-1@k1", "", []string{"1 pod in r1 (1)", "2 nodes in k1 (2)", "spec.source.nodes"}},
		{"as many in other racks", "a-0@r1 b-0@r2", "m-0@k1 m-1@k1", "", []string{"r1 (1), r2 (1)", "k1 (2)"}},
		{"empty ring", "a-0@r1", "", "", []string{"0 nodes"}},
	} {
		var pods []*corev1.Pod
		for _, item := range strings.Fields(c.pods) {
			name, rack, _ := strings.Cut(item, "@")
			pods = append(pods, factPod(name, func(p *corev1.Pod) { p.Labels[rackLabels[0]] = rack }))
		}
		ring := map[string]node.Ring{}
		for _, item := range strings.Fields(c.ring) {
			name, rack, _ := strings.Cut(item, "@")
			ring[name] = node.Ring{Rack: rack}
		}
		mapping, p := paired(pods, ring)
		if c.want == "" {
			if !problemIs(p, ReasonRacksDiffer) {
				t.Errorf("%s: %v, %v", c.what, mapping, p)
				continue
			}
			for _, says := range c.says {
				if !strings.Contains(p.Message, says) {
					t.Errorf("%s: %q does not say %q", c.what, p.Message, says)
				}
			}
			continue
		}
		var got []string
		for _, pair := range strings.Fields(c.want) {
			pod, _, _ := strings.Cut(pair, "=")
			got = append(got, fmt.Sprintf("%s=%s", pod, mapping[pod]))
		}
		if p != nil || strings.Join(got, " ") != c.want || len(mapping) != len(got) {
			t.Errorf("%s: %v, %v", c.what, mapping, p)
		}
	}
}
