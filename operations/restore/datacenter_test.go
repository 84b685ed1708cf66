package restore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/api/node"
)

// TestDatacentersHaveToBeCalledAlike: what NetworkTopologyStrategy replicates to one
// name has no replica under another.
func TestDatacentersHaveToBeCalledAlike(t *testing.T) {
	env := func(pairs ...string) func(*Facts) {
		return pod0(func(p *corev1.Pod) {
			for i := 0; i < len(pairs); i += 2 {
				p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
			}
		})
	}
	const dc, snitch, gossiping = "CASSANDRA_DC", "CASSANDRA_ENDPOINT_SNITCH", "GossipingPropertyFileSnitch"
	config := func(text string) func(*Facts) {
		return pod0(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "server-config-init", Env: []corev1.EnvVar{{Name: "CONFIG_FILE_DATA", Value: text}}}}
		})
	}
	label := func(value string) func(*Facts) {
		return pod0(func(p *corev1.Pod) { p.Labels["cassandra.datastax.com/datacenter"] = value })
	}
	const refused = ReasonDatacenterDiffers
	for _, c := range []struct {
		what   string
		change []func(*Facts)
		reason string
		says   string
		not    string
	}{
		{"the same", []func(*Facts){env(dc, "dc1", snitch, gossiping)}, "", "datacenter of cas-1, cas-2 is called dc1, as in the backup:", "cas-0 says"},
		{"another", []func(*Facts){env(dc, "dc2", snitch, gossiping)}, refused, "of datacenter dc1, and pod cas-0 is to be in dc2 (variable CASSANDRA_DC of container cassandra)", ""},
		{"in other letters", []func(*Facts){env(dc, "DC1", snitch, gossiping)}, refused, "", ""},
		{"the snitch by its class", []func(*Facts){env(snitch, "org.apache.cassandra.locator."+gossiping, "CASSANDRA_DATACENTER", "dc2")}, refused, "CASSANDRA_DATACENTER", ""},
		{"set twice, the last wins", []func(*Facts){env(dc, "dc2", dc, "dc1", snitch, gossiping)}, "", "of cas-1, cas-2 is", ""},
		{"another, of a snitch that may not read it", []func(*Facts){env(dc, "dc2")}, "", "of cas-0, cas-1, cas-2 is called dc1, as in the backup (variable CASSANDRA_DC of container cassandra of cas-0 says dc2): keyspaces", ""},
		{"of another variable", []func(*Facts){env(dc, "$(DC)", snitch, gossiping)}, "", "of cas-0, cas-1, cas-2 is called dc1, as in the backup:", ""},
		{"the snitch alone", []func(*Facts){env(snitch, gossiping)}, "", "of cas-0, cas-1, cas-2 is called", ""},
		{"of ours", []func(*Facts){env(), pod0(func(p *corev1.Pod) {
			p.Spec.Containers[1].Env = []corev1.EnvVar{{Name: dc, Value: "dc2"}, {Name: snitch, Value: gossiping}}
		})}, "", "as in the backup:", ""},
		{"the configuration of cass-operator", []func(*Facts){config(`{"datacenter-info":{"name":"dc2"}}`)}, refused, "CONFIG_FILE_DATA", ""},
		{"which counts more than the label", []func(*Facts){config(`{"datacenter-info":{"name":"dc1"}}`), label("dc2")}, "", "of cas-1, cas-2 is", "says"},
		{"which cannot be read", []func(*Facts){config(`{`), label("dc1")}, "", "of cas-1, cas-2 is", "says"},
		{"the label of another, which is an object's name", []func(*Facts){label("dc2")}, "", "(label cassandra.datastax.com/datacenter of cas-0 says dc2)", ""},
		{"not known of the backup", []func(*Facts){env(dc, "dc2", snitch, gossiping), backup(func(b *node.Backup) {
			for name, ring := range b.Ring {
				ring.Datacenter = ""
				b.Ring[name] = ring
			}
		})}, "", "is lost.", "datacenter"},
		{"of several", []func(*Facts){backup(func(b *node.Backup) {
			ring := b.Ring["old-1"]
			ring.Datacenter = "east"
			b.Ring["old-1"] = ring
		})}, "", "of cas-1 is called east", ""},
	} {
		_, message, p := Plan(facts(3, 3, append([]func(*Facts){remote(nil)}, c.change...)...))
		if p != nil {
			message = p.Message
		}
		if !problemIs(p, c.reason) || p != nil && p.Wait || !strings.Contains(message, c.says) || c.not != "" && strings.Contains(message, c.not) {
			t.Errorf("%s: %+v, %s", c.what, p, message)
		}
	}
	if _, message, p := Plan(facts(3, 3, env(dc, "dc2", snitch, gossiping))); p != nil || strings.Contains(message, "datacenter") {
		t.Errorf("in place: %+v, %s", p, message)
	}
}

// TestDatacenterOf pods as operators and charts make them.
func TestDatacenterOf(t *testing.T) {
	for name, want := range map[string]datacenter{
		"cass-operator":      {"dc1", "variable CONFIG_FILE_DATA of container server-config-init", true},
		"kubernetes-website": {"DC1-K8Demo", "variable CASSANDRA_DC of container cassandra", false},
		"plain-official-41":  {"dc1", "variable CASSANDRA_DC of container cassandra", true},
		"bitnami":            {"dc1", "variable CASSANDRA_DATACENTER of container cassandra", false},
		"scylla-operator":    {"dc1", "label scylla/datacenter", false},
	} {
		text, err := os.ReadFile(filepath.Join("../../test/corpus/pods", name+".yaml"))
		if err != nil {
			t.Error(err)
			continue
		}
		pod := &corev1.Pod{}
		if err := yaml.Unmarshal(text, pod); err != nil {
			t.Fatal(err)
		}
		if got := datacenterOf(pod); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
