package patches_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// tier makes a pod of Anna with a type of server.
func tier(kind, spec, container string) []byte {
	return []byte(strings.Replace(string(anna(spec, container)), `"value":"memory"`, `"value":"`+kind+`"`, 1))
}

func mounts(c corev1.Container) (all []string) {
	for _, m := range c.VolumeMounts {
		text := m.Name + ":" + m.MountPath
		if m.SubPath != "" {
			text += "#" + m.SubPath
		}
		if m.ReadOnly {
			text += ":ro"
		}
		all = append(all, text)
	}
	return all
}

func ports(c corev1.Container) (all []string) {
	for _, p := range c.Ports {
		all = append(all, fmt.Sprintf("%s=%d/%d", strings.TrimPrefix(p.Name, "stategraft-"), p.ContainerPort, p.HostPort))
	}
	return all
}

// Each role has its own port, so that pods share a node's network; only those with data
// serve backups.
func TestLifePorts(t *testing.T) {
	for _, c := range []struct {
		kind, spec, container string
		want                  string
	}{
		{"memory", "", "", "life=6982/0 grpc=50051/0 keys=6980/0 addr=6981/0 node=50061/0"},
		{"ebs", `"hostNetwork":true,"dnsPolicy":"ClusterFirstWithHostNet"`, "", "life=6982/6982 grpc=50051/50051 keys=6980/6980 addr=6981/6981 node=50061/50061"},
		{"r", "", "", "life=6983/0"},
		{"mn", "", "", "life=6984/0"},
		{"b", "", "", "life=6987/0"},
		{"memory", "", `"ports":[{"containerPort":6981}]`, "life=6982/0 grpc=50051/0 keys=6988/0 addr=6989/0 node=50061/0"},
		{"memory", "", `"ports":[{"containerPort":6982},{"containerPort":6989}]`, "life=6988/0 grpc=50051/0 keys=6980/0 addr=6981/0 node=50061/0"},
	} {
		p, _ := graft(t, tier(c.kind, c.spec, c.container), patches.Default())
		agent := own(t, p, patches.ContainerAgent)
		if got := strings.Join(ports(agent), " "); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.kind, c.container, got, c.want)
		}
		life := strings.TrimPrefix(strings.Fields(c.want)[0], "life=")[:4]
		if got := variable(agent, patches.EnvLifePort); got != life {
			t.Errorf("%s: %s %s, want %s", c.kind, patches.EnvLifePort, got, life)
		}
	}
	var all []string
	for port := 6980; port < 7000; port++ {
		all = append(all, fmt.Sprintf(`{"containerPort":%d}`, port))
	}
	_, err := build(t, tier("r", "", `"ports":[`+strings.Join(all, ",")+`]`), patches.Default())
	var conflict *patches.Conflict
	if !errors.As(err, &conflict) || conflict.Reason != workload.ReasonPortConflict {
		t.Errorf("all taken: %v", err)
	}
}

// A node with data is asked to hand its keys over, unless the user has a hook there.
func TestPreStop(t *testing.T) {
	for _, c := range []struct {
		what, kind, container string
		change                func(*patches.Settings)
		port                  int32
		warn                  bool
	}{
		{"none", "memory", "", nil, 6982, false},
		{"null", "ebs", `"lifecycle":null`, nil, 6982, false},
		{"only postStart", "memory", `"lifecycle":{"postStart":{"exec":{"command":["true"]}}}`, nil, 6982, false},
		{"the user's", "memory", `"lifecycle":{"preStop":{"exec":{"command":["true"]}}}`, nil, 0, true},
		{"routing", "r", "", nil, 0, false},
		{"no native sidecars", "memory", "", func(s *patches.Settings) { s.NativeSidecars = false }, 0, false},
	} {
		s := patches.Default()
		if c.change != nil {
			c.change(&s)
		}
		p, patch := graft(t, tier(c.kind, "", c.container), s)
		got := int32(0)
		if l := p.Spec.Containers[0].Lifecycle; l != nil && l.PreStop != nil && l.PreStop.HTTPGet != nil && l.PreStop.HTTPGet.Path == "/depart" {
			got = l.PreStop.HTTPGet.Port.IntVal
		}
		if got != c.port || slices.ContainsFunc(patch.Warnings, func(w string) bool { return strings.Contains(w, "preStop") }) != c.warn {
			t.Errorf("%s: hook at %d, want %d; warnings %q", c.what, got, c.port, patch.Warnings)
		}
	}
}

// Readiness waits for the keys only where keys are to be written.
func TestReplayed(t *testing.T) {
	action := func(a api.PodAction) func(*patches.Settings) {
		return pending(func(o *api.Order) { o.Action = a })
	}
	for what, c := range map[string]struct {
		spec   string
		change func(*patches.Settings)
		want   []string
	}{
		"plain":            {"", func(*patches.Settings) {}, nil},
		"annotation":       {"", func(s *patches.Settings) { s.Restore = "b" }, []string{api.ConditionReplayed}},
		"order":            {"", pending(nil), []string{api.ConditionReplayed}},
		"beside another's": {`"readinessGates":[{"conditionType":"a/b"}]`, pending(nil), []string{"a/b", api.ConditionReplayed}},
		"empty":            {"", action(api.ActionEmpty), nil},
		"undo":             {"", action(api.ActionUndo), nil},
		"tidy":             {"", func(s *patches.Settings) { s.Order = api.Order{Tidy: true} }, nil},
	} {
		p, _ := graft(t, anna(c.spec, ""), settings(c.change))
		var got []string
		for _, g := range p.Spec.ReadinessGates {
			got = append(got, string(g.ConditionType))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: gates %q, want %q", what, got, c.want)
		}
	}
	if p, _ := graft(t, pod("", ""), settings(pending(nil))); len(p.Spec.ReadinessGates) > 0 {
		t.Error("a node of Cassandra waits for keys")
	}
}

// A pod of Anna's gets the parts that the Restore gives it, its own name included.
func TestAnnaOrder(t *testing.T) {
	for node, want := range map[string]string{"db-0": "db-0", "db-1,db-2": "db-1,db-2", "": ""} {
		p, _ := graft(t, anna("", ""), settings(pending(func(o *api.Order) { o.Node = node })))
		if got := variable(own(t, p, patches.ContainerRestore), patches.EnvRestoreSource); got != want {
			t.Errorf("%q: source %q, want %q", node, got, want)
		}
		if gates := p.Spec.SchedulingGates; len(gates) != 1 || gates[0].Name != api.GateRestore {
			t.Errorf("gates %+v", gates)
		}
	}
	remote := settings(pending(func(o *api.Order) { o.Mode = api.Remote }))
	if p, _ := graft(t, anna("", ""), remote); len(p.Spec.Containers[0].Env) != 1 {
		t.Errorf("it gets tokens: %+v", p.Spec.Containers[0].Env)
	}
	_, err := build(t, pod("", ""), settings(func(s *patches.Settings) { s.Restore, s.RestoreSource = "b", "a-0,a-1" }))
	var conflict *patches.Conflict
	if !errors.As(err, &conflict) || conflict.Reason != workload.ReasonBadAnnotation {
		t.Errorf("several sources of Cassandra: %v", err)
	}
}

// Who sees which Secret, and who may write on the disk tier's volume.
func TestAnnaMounts(t *testing.T) {
	disk := tier("ebs", "", `"volumeMounts":[{"name":"data","mountPath":"/ebs"}]`)
	holding := func(p corev1.Pod, text string) (names []string) {
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers[1:]) {
			if slices.ContainsFunc(mounts(c), func(m string) bool {
				return strings.HasPrefix(m, text) && (strings.HasSuffix(m, ":ro") || text == "data:")
			}) {
				names = append(names, strings.TrimPrefix(c.Name, "stategraft-"))
			}
		}
		return names
	}
	restored := settings(func(s *patches.Settings) { s.Restore, s.DecryptionSecret = "b", "age" })
	for _, c := range []struct {
		what, mount string
		settings    patches.Settings
		want        string
	}{
		{"decryption", "stategraft-decryption:/etc/stategraft/decryption", restored, "restore"},
		{"decryption, not restored", "stategraft-decryption:", settings(func(s *patches.Settings) { s.DecryptionSecret = "age" }), ""},
		{"storage", "stategraft-storage:", restored, "restore agent"},
		{"medusa.ini", "stategraft-medusa-config:", restored, "restore agent"},
		{"TLS", "stategraft-grpc-tls:", restored, "restore agent"},
		{"data", "data:", restored, "setup restore agent"},
		{"data, not restored", "data:", patches.Default(), "setup agent"},
	} {
		p, _ := graft(t, disk, c.settings)
		if got := strings.Join(holding(p, c.mount), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	plain, _ := graft(t, disk, patches.Default())
	if agent := own(t, plain, patches.ContainerAgent); !slices.Contains(mounts(agent), "data:/ebs:ro") {
		t.Errorf("the agent writes on the volume: %q", mounts(agent))
	}
	for _, raw := range [][]byte{disk, anna("", ""), tier("ebs", `"securityContext":{"runAsUser":1000}`, `"volumeMounts":[{"name":"data","mountPath":"/ebs"}]`)} {
		p, _ := graft(t, raw, restored) // what one leaves to the next, that has to change
		setup, restore, agent := own(t, p, patches.ContainerSetup), own(t, p, patches.ContainerRestore), own(t, p, patches.ContainerAgent)
		if a, b, c := *setup.SecurityContext.RunAsUser, *restore.SecurityContext.RunAsUser, *agent.SecurityContext.RunAsUser; a != b || b != c {
			t.Errorf("users %d, %d, %d", a, b, c)
		}
	}
	for what, s := range map[string]patches.Settings{"restored": restored, "tidy": settings(func(s *patches.Settings) { s.Order = api.Order{Tidy: true} })} {
		p, _ := graft(t, disk, s)
		if agent := own(t, p, patches.ContainerAgent); !slices.Contains(mounts(agent), "data:/ebs") || *agent.SecurityContext.RunAsUser != 0 {
			t.Errorf("%s: the agent cannot take away what is not kept: %q", what, mounts(agent))
		}
	}
}

// The runtime stays below what kills the container.
func TestMemoryLimit(t *testing.T) {
	for limit, want := range map[string]string{"100": "90", "1Ki": "918", "": "241591905"} {
		s := patches.Default()
		if limit != "" {
			s.Resources.Anna.Limits.Memory = limit
		}
		p, _ := graft(t, anna("", ""), s)
		if got := variable(own(t, p, patches.ContainerAgent), "GOMEMLIMIT"); got != want {
			t.Errorf("%q: %s, want %s", limit, got, want)
		}
	}
	if p, _ := graft(t, anna(`"resources":{"limits":{"memory":"1Gi"}}`, ""), patches.Default()); variable(own(t, p, patches.ContainerAgent), "GOMEMLIMIT") != "" {
		t.Error("a limit without one")
	}
}

// A pod has a name of its own only by its own host name.
func TestSubdomain(t *testing.T) {
	for spec, want := range map[string]string{
		`"subdomain":"kvs","hostname":"db-0"`: "kvs", `"subdomain":"kvs"`: "", `"subdomain":"kvs","hostname":"db"`: "", `"hostname":"db-0"`: "",
	} {
		p, _ := graft(t, anna(spec, ""), patches.Default())
		if got := variable(own(t, p, patches.ContainerSetup), patches.EnvSubdomain); got != want {
			t.Errorf("%s: %q, want %q", spec, got, want)
		}
	}
}

// The two tiers are kept apart on the host network, by upstream's label.
func TestTiersApart(t *testing.T) {
	host := `"hostNetwork":true,"dnsPolicy":"ClusterFirstWithHostNet"`
	labelled := func(raw []byte) []byte {
		return []byte(strings.Replace(string(raw), `"labels":{`, `"labels":{"role":"memory",`, 1))
	}
	for what, c := range map[string]struct {
		raw  []byte
		want bool
	}{
		"labelled": {labelled(anna(host, "")), true}, "no label": {anna(host, ""), false}, "its own network": {labelled(anna("", "")), false},
		"another role": {labelled(tier("r", host, "")), false},
	} {
		p, _ := graft(t, c.raw, patches.Default())
		if got := p.Spec.Affinity != nil && p.Spec.Affinity.PodAntiAffinity != nil; got != c.want {
			t.Errorf("%s: %+v", what, p.Spec.Affinity)
		}
	}
}

func decode(t *testing.T, text string) (all []map[string]string) {
	t.Helper()
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}
