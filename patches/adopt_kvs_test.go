package patches_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// What a node of Anna's that runs was started with is read where the pod has it, and only
// there: nothing of it can be mounted that Kubernetes forbids, and nothing is made up.
func TestAdoptKVSKnows(t *testing.T) {
	const conf, base = `{"name":"conf","emptyDir":{}}`, `{"name":"base","configMap":{"name":"anna"}}`
	volumes := `"volumes":[` + conf + `,` + base + `]`
	env := func(more string) string {
		return `"image":"hydroproject/anna","env":[{"name":"SERVER_TYPE","value":"memory"},{"name":"POD_NAME","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},` +
			`{"name":"POD_IP","valueFrom":{"fieldRef":{"fieldPath":"status.hostIP"}}}` + more + `]`
	}
	routing := func(text string) string { return env(`,{"name":"ROUTING_IPS","value":"` + text + `"}`) }
	own := patches.Settings{ConfigMap: "own", GRPCTLS: true}
	for _, c := range []struct {
		what, spec, container string
		settings              patches.Settings
		mounts, dir, routing  string
	}{
		{"nothing", volumes, "", patches.Default(), "", "", ""},
		{"the directory of its file", volumes, `"volumeMounts":[{"name":"conf","mountPath":"/hydro/anna/conf"}]`, patches.Default(),
			"conf:/stategraft-conf/kvs:ro", "/stategraft-conf/kvs", ""},
		{"its file by subPath", volumes, `"volumeMounts":[{"name":"conf","mountPath":"/hydro/anna/conf","subPath":"x"}]`, patches.Default(), "", "", ""},
		{"what its file is made of", volumes, env(`,{"name":"ANNA_CONF_BASE","value":"/etc/anna/anna-config.yml"}`) + `,"volumeMounts":[{"name":"base","mountPath":"/etc/anna/"}]`, patches.Default(),
			"base:/etc/stategraft/config:ro", "", ""},
		{"that by subPath", volumes, env(`,{"name":"ANNA_CONF_BASE","value":"/etc/anna/anna-config.yml"}`) + `,"volumeMounts":[{"name":"base","mountPath":"/etc/anna","subPath":"x"}]`, patches.Default(), "", "", ""},
		{"one that is named for us goes before it", volumes, env(`,{"name":"ANNA_CONF_BASE","value":"/etc/anna/anna-config.yml"}`) + `,"volumeMounts":[{"name":"base","mountPath":"/etc/anna"}]`, own, "", "", ""},
		{"a file of another name", volumes, env(`,{"name":"ANNA_CONF_BASE","value":"/etc/anna/base.yml"}`) + `,"volumeMounts":[{"name":"base","mountPath":"/etc/anna"}]`, patches.Default(), "", "", ""},
		{"the disk tier's volume is left alone", volumes, `"volumeMounts":[{"name":"data","mountPath":"/ebs"}]`, patches.Default(), "", "", ""},
		{"variables", volumes, routing("10.0.0.1 10.0.0.2"), patches.Default(), "", "", "10.0.0.1 10.0.0.2"},
		{"the seed alone", volumes, env(`,{"name":"ROUTING_IPS","value":" "},{"name":"SEED_IP","value":"10.0.0.3"}`), patches.Default(), "", "", "10.0.0.3"},
		{"what refers to the pod's name", volumes, routing("$(POD_NAME).r"), patches.Default(), "", "", "$(POD_NAME).r"},
		{"what refers to another thing by a name of ours", volumes, routing("$(POD_IP)"), patches.Default(), "", "", ""},
		{"what refers to what we have not", volumes, routing("$(OTHER)"), patches.Default(), "", "", ""},
		{"what refers to what it has not itself", volumes, routing("$(HOST_IP)"), patches.Default(), "", "", ""},
		{"from elsewhere", volumes, env(`,{"name":"ROUTING_IPS","valueFrom":{"configMapKeyRef":{"name":"a","key":"b"}}}`), patches.Default(), "", "", ""},
	} {
		agent, ok := mustAdopt(t, anna(c.spec, c.container), c.settings)[patches.ContainerAgent]
		if !ok {
			t.Errorf("%s: no agent", c.what)
			continue
		}
		if got := mountsOf(agent); got != c.mounts {
			t.Errorf("%s: mounts %q, want %q", c.what, got, c.mounts)
		}
		if got := from(agent, patches.EnvConfDir); got != c.dir {
			t.Errorf("%s: the file is at %q, want %q", c.what, got, c.dir)
		}
		if got := from(agent, "STATEGRAFT_NODE_ROUTING"); got != c.routing {
			t.Errorf("%s: routing nodes %q, want %q", c.what, got, c.routing)
		}
		// What an adopted node is not to be told, or may not: nothing is looked for on its disk,
		// and nobody can ask it to leave.
		for _, name := range []string{patches.EnvLifePort, patches.EnvGrace, patches.EnvTidyAfter, "STATEGRAFT_DATA_DIRECTORY", patches.EnvRender, patches.EnvSubdomain} {
			if got := from(agent, name); got != "" {
				t.Errorf("%s: %s is %q", c.what, name, got)
			}
		}
		if got := strings.Join(agent.Command, " "); got != patches.AgentInImage+" adopted anna" {
			t.Errorf("%s: it runs %q", c.what, got)
		}
	}
}

// Its ports are those that it would have when injected, and none that the pod has.
func TestAdoptKVSPorts(t *testing.T) {
	for container, want := range map[string]string{
		"":                                  "6980 50051 50061",
		`"ports":[{"containerPort":6981}]`:  "6988 50051 50061",
		`"ports":[{"containerPort":50051}]`: "6980 50052 50061",
		`"ports":[{"containerPort":50061}]`: "6980 50051 50062",
		`"ports":[{"containerPort":6988},{"containerPort":6980}]`: "6989 50051 50061",
	} {
		for _, kind := range []string{"memory", "ebs"} {
			raw := tier(kind, "", container)
			agent := mustAdopt(t, raw, patches.Default())[patches.ContainerAgent]
			got := strings.Join([]string{from(agent, patches.EnvResponsePort), from(agent, "STATEGRAFT_GRPC_PORT"), from(agent, patches.EnvNodePort)}, " ")
			if got != want {
				t.Errorf("%s %s: %s, want %s", kind, container, got, want)
			}
			p, _ := graft(t, raw, patches.Default())
			injected := own(t, p, patches.ContainerAgent)
			for _, name := range []string{patches.EnvResponsePort, "STATEGRAFT_GRPC_PORT", patches.EnvNodePort} {
				if got, want := from(agent, name), variable(injected, name); got != want {
					t.Errorf("%s %s: %s is %s, and injected %s", kind, container, name, got, want)
				}
			}
		}
	}
	s := patches.Default()
	s.GRPCPort = 6200
	_, err := adopt(t, anna("", ""), s, patches.Adoption{Next: 1})
	var conflict *patches.Conflict
	if !errors.As(err, &conflict) || conflict.Reason != workload.ReasonPortConflict {
		t.Errorf("a port of the database's: %v", err)
	}
}

// A cloud identity of the node's is its agent's too.
func TestAdoptKVSIdentity(t *testing.T) {
	raw := anna(`"volumes":[{"name":"aws-iam-token","projected":{}}]`,
		`"image":"hydroproject/anna","env":[{"name":"SERVER_TYPE","value":"memory"},{"name":"AWS_ROLE_ARN","value":"arn:x"}],"volumeMounts":[{"name":"aws-iam-token","mountPath":"/t","readOnly":true}]`)
	s := patches.Default()
	s.StorageSecret = ""
	agent := mustAdopt(t, raw, s)[patches.ContainerAgent]
	if got := mountsOf(agent); got != "aws-iam-token:/t:ro" || from(agent, "AWS_ROLE_ARN") != "arn:x" {
		t.Errorf("mounts %q, role %q", got, from(agent, "AWS_ROLE_ARN"))
	}
}
