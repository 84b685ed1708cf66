package patches_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// adopt recognises and adopts, without annotations in between.
func adopt(t *testing.T, raw []byte, s patches.Settings, a patches.Adoption) ([]corev1.EphemeralContainer, error) {
	t.Helper()
	parsed, err := workload.Parse(raw)
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	d := workload.Recognize(parsed, workload.Hints{NamespaceLabelled: true, AnyUID: true})
	if d.Verdict != workload.Inject {
		t.Fatalf("%s (%s) %s: %s", d.Verdict, d.Reason, d.Message, raw)
	}
	return patches.Adopt(parsed, d.Workload, s, a)
}

// mustAdopt gives the containers by their names without number.
func mustAdopt(t *testing.T, raw []byte, s patches.Settings) map[string]corev1.EphemeralContainer {
	t.Helper()
	list, err := adopt(t, raw, s, patches.Adoption{Next: 1})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]corev1.EphemeralContainer{}
	for _, c := range list {
		out[c.Name[:strings.LastIndex(c.Name, "-")]] = c
	}
	return out
}

func names(list []corev1.EphemeralContainer) string {
	var all []string
	for _, c := range list {
		all = append(all, strings.TrimPrefix(c.Name, workload.OwnPrefix))
	}
	return strings.Join(all, " ")
}

// from tells what a variable is: its value, or where that comes from.
func from(c corev1.EphemeralContainer, name string) string {
	for _, v := range c.Env {
		switch {
		case v.Name != name:
		case v.ValueFrom == nil:
			return v.Value
		case v.ValueFrom.ConfigMapKeyRef != nil:
			return "configMap " + v.ValueFrom.ConfigMapKeyRef.Name + "/" + v.ValueFrom.ConfigMapKeyRef.Key
		case v.ValueFrom.SecretKeyRef != nil:
			return "secret " + v.ValueFrom.SecretKeyRef.Name + "/" + v.ValueFrom.SecretKeyRef.Key
		default:
			return "other"
		}
	}
	return ""
}

// mountsOf lists volume:path[:ro] of a container.
func mountsOf(c corev1.EphemeralContainer) string {
	var all []string
	for _, m := range c.VolumeMounts {
		text := m.Name + ":" + m.MountPath
		if m.ReadOnly {
			text += ":ro"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func TestAdoptRoles(t *testing.T) {
	snapshot, medusa, agent := patches.RoleSnapshot, patches.RoleMedusa, patches.RoleAgent
	management := pod("", `"image":"k8ssandra/cass-management-api:4.1.4"`)
	taken := pod(`"ephemeralContainers":[{"name":"stategraft-medusa-7"},{"name":"debugger-99"},{"name":"stategraft-agent-x"},{"name":"stategraft-snapshot-3"}]`, "")
	for _, c := range []struct {
		what          string
		pod           []byte
		next          int
		roles         []patches.Role
		names, takers string
	}{
		{"all", pod("", ""), 1, nil, "agent-1 snapshot-2 medusa-3", "snapshot-2 medusa-3"},
		{"later", pod("", ""), 4, nil, "agent-4 snapshot-5 medusa-6", "snapshot-5 medusa-6"},
		{"none is number 0", pod("", ""), 0, nil, "agent-1 snapshot-2 medusa-3", "snapshot-2 medusa-3"},
		{"one", pod("", ""), 9, []patches.Role{medusa}, "agent-9 medusa-10", "medusa-10"},
		{"the other", pod("", ""), 9, []patches.Role{snapshot}, "agent-9 snapshot-10", "snapshot-10"},
		{"in any order", pod("", ""), 1, []patches.Role{medusa, snapshot, agent}, "agent-1 snapshot-2 medusa-3", "snapshot-2 medusa-3"},
		{"nobody takes the binary", pod("", ""), 1, []patches.Role{agent}, "", ""},
		{"nothing", pod("", ""), 1, []patches.Role{}, "", ""},
		{"management API", management, 1, nil, "agent-1 medusa-2", "medusa-2"},
		{"management API has no snapshot server", management, 1, []patches.Role{snapshot}, "", ""},
		{"names that are taken", taken, 1, nil, "agent-8 snapshot-9 medusa-10", "snapshot-9 medusa-10"},
		{"Anna", anna("", ""), 3, nil, "agent-3", ""},
		{"Anna's agent", anna("", ""), 3, []patches.Role{agent}, "agent-3", ""},
		{"Anna has no other", anna("", ""), 3, []patches.Role{medusa}, "", ""},
	} {
		list, err := adopt(t, c.pod, patches.Default(), patches.Adoption{Next: c.next, Roles: c.roles})
		if err != nil || names(list) != c.names {
			t.Errorf("%s: %q, want %q (%v)", c.what, names(list), c.names, err)
			continue
		}
		for i, e := range list {
			number := e.Name[strings.LastIndex(e.Name, "-")+1:]
			if got := from(e, patches.EnvAdopted); got != number {
				t.Errorf("%s: %s is number %q", c.what, e.Name, got)
			}
			takers, dir := "", ""
			if c.takers != "" {
				dir = "/var/lib/cassandra/.stategraft/adopted/" + from(list[0], patches.EnvAdopted)
			}
			if i == 0 {
				takers = c.takers
			}
			if got := from(e, patches.EnvAdoptedTakers); got != takers {
				t.Errorf("%s: %s serves %q, want %q", c.what, e.Name, got, takers)
			}
			if got := from(e, patches.EnvAdoptedDir); got != dir {
				t.Errorf("%s: %s looks at %q, want %q", c.what, e.Name, got, dir)
			}
		}
	}
}

func TestAdoptNotPossible(t *testing.T) {
	mounts := func(more string) []byte {
		return pod(`"volumes":[{"name":"data","emptyDir":{}},{"name":"other","emptyDir":{}}]`, `"volumeMounts":[`+more+`]`)
	}
	const data = `{"name":"data","mountPath":"/var/lib/cassandra"},`
	port := patches.Default()
	port.GRPCPort = 9042
	for what, c := range map[string]struct {
		pod      []byte
		settings patches.Settings
		reason   workload.Reason
		says     string
	}{
		"data by subPath":     {mounts(`{"name":"data","mountPath":"/var/lib/cassandra","subPath":"x"}`), patches.Default(), workload.ReasonSubPath, "volume data on /var/lib/cassandra"},
		"data by subPathExpr": {mounts(`{"name":"data","mountPath":"/var/lib/cassandra","subPathExpr":"$(X)"}`), patches.Default(), workload.ReasonSubPath, "created anew"},
		"a part of the data by subPath": {mounts(data + `{"name":"other","mountPath":"/var/lib/cassandra/data/ks","subPath":"x"}`), patches.Default(),
			workload.ReasonSubPath, "/var/lib/cassandra/data/ks"},
		"nodetool's settings by subPath": {mounts(data + `{"name":"other","mountPath":"/root/.cassandra/nodetool-ssl.properties","subPath":"x"}`), patches.Default(),
			workload.ReasonSubPath, "nodetool-ssl.properties"},
		"injected in part":    {pod(`"initContainers":[{"name":"stategraft-setup","command":["stategraft-agent"]}]`, ""), patches.Default(), workload.ReasonAlreadyInjected, "stategraft-setup"},
		"a name of ours":      {pod(`"initContainers":[{"name":"stategraft-agent","command":["sleep"]}]`, ""), patches.Default(), workload.ReasonNameConflict, "stategraft-agent"},
		"a volume of ours":    {pod(`"volumes":[{"name":"data","emptyDir":{}},{"name":"stategraft-storage","emptyDir":{}}]`, ""), patches.Default(), workload.ReasonNameConflict, "stategraft-storage"},
		"a port that is used": {pod("", ""), port, workload.ReasonPortConflict, "9042"},
		"no data":             {[]byte(strings.ReplaceAll(string(anna("", "")), `"value":"memory"`, `"value":"r"`)), patches.Default(), workload.ReasonNoData, "routing"},
	} {
		list, err := adopt(t, c.pod, c.settings, patches.Adoption{Next: 1})
		var conflict *patches.Conflict
		if !errors.As(err, &conflict) || conflict.Reason != c.reason || !strings.Contains(conflict.Message, c.says) || list != nil {
			t.Errorf("%s: %v, %s, want %s and %q", what, err, names(list), c.reason, c.says)
		}
	}
}

// What can be done without is, where it is mounted by subPath.
func TestAdoptWithoutSubPath(t *testing.T) {
	raw := func(more string) []byte {
		return pod(`"volumes":[{"name":"data","emptyDir":{}},{"name":"log","emptyDir":{}},{"name":"conf","configMap":{"name":"c"}}]`,
			`"volumeMounts":[{"name":"data","mountPath":"/var/lib/cassandra"},`+more+`]`)
	}
	const plain = "data:/var/lib/cassandra:ro"
	for what, c := range map[string]struct{ mounts, medusa, snapshot, config string }{
		"configuration as it is":    {`{"name":"conf","mountPath":"/etc/cassandra"}`, plain + " conf:/etc/cassandra:ro", plain, "/etc/cassandra"},
		"a file of configuration":   {`{"name":"conf","mountPath":"/etc/cassandra/cassandra.yaml","subPath":"a/c.yaml"}`, plain + " conf:/stategraft-config:ro", plain, "/stategraft-config/a/c.yaml"},
		"the whole configuration":   {`{"name":"conf","mountPath":"/etc/cassandra","subPath":"conf"}`, plain + " conf:/stategraft-config:ro", plain, "/stategraft-config/conf"},
		"with an expression":        {`{"name":"conf","mountPath":"/etc/cassandra","subPathExpr":"$(X)"}`, plain, plain, ""},
		"a commit log":              {`{"name":"log","mountPath":"/commitlog","subPath":"x"}`, plain, plain, ""},
		"a commit log as it is":     {`{"name":"log","mountPath":"/commitlog"}`, plain + " log:/commitlog:ro", plain, ""},
		"the shell's settings":      {`{"name":"conf","mountPath":"/root/.cassandra/cqlshrc","subPath":"x"}`, plain, plain, ""},
		"nodetool's, not by path":   {`{"name":"conf","mountPath":"/root/.cassandra/"}`, plain, "conf:/root/.cassandra/:ro " + plain, ""},
		"nothing of the database's": {`{"name":"conf","mountPath":"/opt/x","subPath":"x"}`, plain, plain, ""},
	} {
		got := mustAdopt(t, raw(c.mounts), patches.Default())
		if m := mountsOf(got[patches.ContainerMedusa]); m != c.medusa {
			t.Errorf("%s: Medusa has %q, want %q", what, m, c.medusa)
		}
		if m := mountsOf(got[patches.ContainerSnapshot]); m != c.snapshot {
			t.Errorf("%s: the snapshot server has %q, want %q", what, m, c.snapshot)
		}
		if m := mountsOf(got[patches.ContainerAgent]); m != "data:/var/lib/cassandra" {
			t.Errorf("%s: the agent has %q", what, m)
		}
		if at := from(got[patches.ContainerMedusa], "STATEGRAFT_CASSANDRA_CONFIG"); at != c.config {
			t.Errorf("%s: configuration at %q, want %q", what, at, c.config)
		}
	}
}

// What is asked for when a pod is created makes no difference to one that runs.
func TestAdoptSettings(t *testing.T) {
	plain, err := adopt(t, pod("", ""), patches.Default(), patches.Adoption{Next: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := patches.Default()
	s.Restore, s.RestoreSource, s.HostNetwork, s.SpreadHost, s.Expose, s.DecryptionSecret = "nightly", "other", true, true, true, "age"
	s.Order = api.Order{Pending: true, Tidy: true, ID: "x"}
	other, err := adopt(t, pod("", ""), s, patches.Adoption{Next: 1})
	if err != nil || fmt.Sprint(digests(other)) != fmt.Sprint(digests(plain)) {
		t.Errorf("%v: %v, want %v", err, digests(other), digests(plain))
	}
	s = patches.Default()
	s.Resources.Medusa.Limits.Memory = "1500M"
	s.Resources.Anna = patches.Resources{Requests: patches.Amounts{Memory: "1Gi"}}
	if got := from(mustAdopt(t, pod("", ""), s)[patches.ContainerMedusa], patches.EnvMemory); got != "1500000000" {
		t.Errorf("Medusa keeps below %s", got)
	}
	// A pod with resources as a whole has containers without any, which are bounded all the same.
	if got := from(mustAdopt(t, pod(`"resources":{"limits":{"memory":"8Gi"}}`, ""), s)[patches.ContainerSnapshot], patches.EnvMemory); got != "402653184" {
		t.Errorf("the snapshot server keeps below %s", got)
	}
	if got := from(mustAdopt(t, anna("", ""), s)[patches.ContainerAgent], patches.EnvMemory); got != "1073741824" {
		t.Errorf("Anna's agent keeps below %s", got)
	}
}

func digests(list []corev1.EphemeralContainer) (all []string) {
	for _, c := range list {
		all = append(all, from(c, patches.EnvAdoptedDigest))
	}
	return all
}

func TestAdoptBookkeeping(t *testing.T) {
	at := time.Date(2026, 11, 30, 3, 4, 5, 6, time.FixedZone("", 3600))
	list, err := adopt(t, pod("", ""), patches.Default(), patches.Adoption{Next: 2, At: at, Pair: "abc", Renew: "$(now) x"})
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %s", err, names(list))
	}
	for _, c := range list {
		if from(c, patches.EnvAdoptedAt) != "2026-11-30T02:04:05Z" || from(c, patches.EnvAdoptedPair) != "abc" || from(c, patches.EnvAdoptedRenew) != "$(now) x" {
			t.Errorf("%s: %v", c.Name, c.Env)
		}
	}
	images := patches.Default()
	images.MedusaImage = "other/medusa"
	changed, err := adopt(t, pod("", ""), images, patches.Adoption{Next: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, same := range []bool{true, true, false} {
		if (digests(list)[i] == digests(changed)[i]) != same {
			t.Errorf("%s: digests %s and %s", list[i].Name, digests(list)[i], digests(changed)[i])
		}
	}
}

// Beside a database that starts as root ours do not, and the labels that SELinux lets share
// volumes by are those of the database's.
func TestAdoptSecurity(t *testing.T) {
	raw := pod("", `"securityContext":{"runAsUser":0,"seLinuxOptions":{"level":"s0:c1,c2"}}`)
	for name, c := range mustAdopt(t, raw, patches.Default()) {
		sc := c.SecurityContext
		if *sc.RunAsUser != workload.MedusaUID || !*sc.RunAsNonRoot || sc.Capabilities.Add != nil || sc.SELinuxOptions == nil || sc.SELinuxOptions.Level != "s0:c1,c2" || *sc.ReadOnlyRootFilesystem {
			t.Errorf("%s: %+v", name, sc)
		}
	}
}

// Nobody keeps the ports of ephemeral containers on a node's network apart, so two pods
// that meet there should not look for them from the same one on.
func TestAdoptHostNetworkPorts(t *testing.T) {
	pod := func(name string, hostNetwork bool) []byte {
		return fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":"db","ownerReferences":[{"kind":"StatefulSet","name":"x","controller":true}]},
			"spec":{"hostNetwork":%t,"securityContext":{"runAsUser":999},"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data"}}],
			"containers":[{"name":"cassandra","image":"cassandra:5.0","ports":[{"containerPort":9042},{"containerPort":7000}],
			"volumeMounts":[{"name":"data","mountPath":"/var/lib/cassandra"}]}]}}`, name, hostNetwork)
	}
	ports := func(raw []byte) (all string) {
		medusa := mustAdopt(t, raw, patches.Default())[patches.ContainerMedusa]
		for _, name := range []string{"STATEGRAFT_GRPC_PORT", "STATEGRAFT_NODE_PORT", "STATEGRAFT_SNAPSHOT_PORT"} {
			all += from(medusa, name) + " "
		}
		return all
	}
	if one, other := ports(pod("one-0", true)), ports(pod("other-0", true)); one == other {
		t.Errorf("both have %s", one)
	}
	if one, other := ports(pod("one-0", false)), ports(pod("other-0", false)); one != "50051 50061 9188 " || other != one {
		t.Errorf("in networks of their own: %s and %s", one, other)
	}
}
