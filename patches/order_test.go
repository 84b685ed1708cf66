package patches_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// pending is an order for pod db-0, changed.
func pending(change func(*api.Order)) func(*patches.Settings) {
	o := api.Order{Restore: "r", Pending: true, ID: "r/0123456789ab", Action: api.ActionRestore, Backup: "b1", Node: "db-0",
		Mode: api.InPlace, Keep: api.KeepIfRoom}
	if change != nil {
		change(&o)
	}
	return func(s *patches.Settings) { s.Order = o }
}

// asked are the variables that say what is to be restored, in order.
func asked(c corev1.Container) string {
	var out []string
	for _, v := range c.Env {
		for _, prefix := range []string{"STATEGRAFT_RESTORE_", "STATEGRAFT_BACKUP", "STATEGRAFT_KEEP_"} {
			if strings.HasPrefix(v.Name, prefix) {
				out = append(out, strings.TrimPrefix(strings.TrimPrefix(v.Name, "STATEGRAFT_"), "RESTORE_")+"="+v.Value)
			}
		}
	}
	return strings.Join(out, " ")
}

func TestOrderEnv(t *testing.T) {
	host := pod(`"hostNetwork":true,"dnsPolicy":"ClusterFirstWithHostNet"`, "")
	for _, c := range []struct {
		what   string
		raw    []byte
		change func(*api.Order)
		want   string
	}{
		{"in place", pod("", ""), nil, "ID=r/0123456789ab BACKUP=b1 KEEP_PREVIOUS=IfRoom"},
		{"keep nothing", pod("", ""), func(o *api.Order) { o.Keep = api.KeepNever }, "ID=r/0123456789ab BACKUP=b1"},
		{"keep, not said", pod("", ""), func(o *api.Order) { o.Keep = "" }, "ID=r/0123456789ab BACKUP=b1"},
		{"of another node", pod("", ""), func(o *api.Order) { o.Node = "db-2" }, "ID=r/0123456789ab BACKUP=b1 SOURCE=db-2 KEEP_PREVIOUS=IfRoom"},
		{"of another prefix", pod("", ""), func(o *api.Order) { o.Prefix = "ns-other" }, "ID=r/0123456789ab BACKUP=b1 PREFIX=ns-other KEEP_PREVIOUS=IfRoom"},
		{"action not said", pod("", ""), func(o *api.Order) { o.Action = "" }, "ID=r/0123456789ab BACKUP=b1 KEEP_PREVIOUS=IfRoom"},
		// There the pod is known by its node's address.
		{"of its own name, on a host network", host, nil, "ID=r/0123456789ab BACKUP=b1 SOURCE=db-0 KEEP_PREVIOUS=IfRoom"},
		{"remote", pod("", ""), func(o *api.Order) { o.Mode, o.Node, o.Tokens = api.Remote, "x-1", []string{"-5"} },
			"ID=r/0123456789ab BACKUP=b1 SOURCE=x-1 MODE=Remote KEEP_PREVIOUS=IfRoom"},
		{"empty", pod("", ""), func(o *api.Order) { o.Action, o.Node = api.ActionEmpty, "" }, "ID=r/0123456789ab ACTION=empty KEEP_PREVIOUS=IfRoom"},
		{"empty and remote", pod("", ""), func(o *api.Order) { o.Action, o.Mode = api.ActionEmpty, api.Remote }, "ID=r/0123456789ab ACTION=empty MODE=Remote KEEP_PREVIOUS=IfRoom"},
		{"undo", pod("", ""), func(o *api.Order) { o.Action, o.UndoID, o.Backup = api.ActionUndo, "before/1", "" }, "ID=r/0123456789ab ACTION=undo UNDO=before/1 KEEP_PREVIOUS=IfRoom"},
	} {
		p, _ := graft(t, c.raw, settings(func(s *patches.Settings) {
			s.Restore, s.RestoreSource = "other", "elsewhere" // an order stands instead
			pending(c.change)(s)
		}))
		if got := asked(own(t, p, patches.ContainerRestore)); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
		if len(p.Spec.SchedulingGates) != 1 || p.Spec.SchedulingGates[0].Name != api.GateRestore {
			t.Errorf("%s: gates %v", c.what, p.Spec.SchedulingGates)
		}
	}
}

// The gate is added beside others, and not twice.
func TestGate(t *testing.T) {
	for text, want := range map[string]string{
		`null`: "/spec/schedulingGates", `[]`: "/spec/schedulingGates/-", `[{"name":"other"}]`: "/spec/schedulingGates/-",
		`[{"name":"stategraft.io/restore"},{"name":"other"}]`: "",
	} {
		_, patch := graft(t, pod(`"schedulingGates":`+text, ""), settings(pending(nil)))
		got := ""
		for _, op := range patch.Operations {
			if strings.HasPrefix(op.Path, "/spec/schedulingGates") {
				got += op.Path
			}
		}
		if got != want {
			t.Errorf("%s: added at %q, want %q", text, got, want)
		}
	}
	for _, change := range []func(*patches.Settings){func(*patches.Settings) {}, func(s *patches.Settings) { s.Restore = "b" }, pending(func(o *api.Order) { o.Pending, o.Tidy = false, true })} {
		if p, _ := graft(t, pod("", ""), settings(change)); len(p.Spec.SchedulingGates) > 0 {
			t.Errorf("gates %v without a pending order", p.Spec.SchedulingGates)
		}
	}
}

// Only where there may be data from before does the agent write to the volume.
func TestTidy(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*patches.Settings)
		want   bool
	}{
		{"nothing", func(*patches.Settings) {}, false},
		{"of the template", func(s *patches.Settings) { s.Restore = "b" }, false},
		{"pending", pending(nil), true},
		{"tidy", pending(func(o *api.Order) { *o = api.Order{Tidy: true} }), true},
	} {
		p, _ := graft(t, pod("", ""), settings(c.change))
		for _, container := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			writes := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "data" && !m.ReadOnly })
			switch after := variable(container, patches.EnvTidyAfter); {
			case container.Name == patches.ContainerAgent && (writes != c.want || (after == "24h") != c.want):
				t.Errorf("%s: the agent writes to the data: %v, %s %q", c.what, writes, patches.EnvTidyAfter, after)
			case container.Name != patches.ContainerAgent && after != "":
				t.Errorf("%s: %s tidies up", c.what, container.Name)
			}
		}
		if restores := len(p.Spec.InitContainers) > 0; restores != (c.what == "of the template" || c.what == "pending") {
			t.Errorf("%s: init containers %v", c.what, p.Spec.InitContainers)
		}
	}
}

// The node's service has a port of its own, the same in both containers that serve
// it, and on a host network the node's.
func TestNodePort(t *testing.T) {
	for _, c := range []struct {
		what, spec, container string
		change                func(*patches.Settings)
		port, host            int32
	}{
		{"usual", "", "", pending(nil), node.DefaultPort, 0},
		{"taken by a container", `"initContainers":[{"name":"x","ports":[{"containerPort":50061}]}]`, "", pending(nil), node.DefaultPort + 1, 0},
		{"taken by gRPC", "", "", func(s *patches.Settings) { pending(nil)(s); s.GRPCPort = node.DefaultPort }, node.DefaultPort + 1, 0},
		{"host network", `"hostNetwork":true,"dnsPolicy":"ClusterFirstWithHostNet"`, "", pending(nil), node.DefaultPort, node.DefaultPort},
		{"to the host network", "", "", func(s *patches.Settings) { pending(nil)(s); s.HostNetwork = true }, node.DefaultPort, node.DefaultPort},
	} {
		p, _ := graft(t, pod(c.spec, c.container), settings(c.change))
		for _, name := range []string{patches.ContainerMedusa, patches.ContainerRestore} {
			container := own(t, p, name)
			at := slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == node.PortName })
			if at < 0 || container.Ports[at].ContainerPort != c.port || container.Ports[at].HostPort != c.host ||
				variable(container, patches.EnvNodePort) != fmt.Sprint(c.port) {
				t.Errorf("%s: %s has ports %+v, %s %q", c.what, name, container.Ports, patches.EnvNodePort, variable(container, patches.EnvNodePort))
			}
		}
	}
	routing := []byte(strings.Replace(string(anna("", "")), `"value":"memory"`, `"value":"r"`, 1))
	if p, _ := graft(t, routing, patches.Default()); slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return variable(c, patches.EnvNodePort) != "" }) {
		t.Error("a pod without data has the port")
	}
}

// A restore container that the pod brings along has to be the one of this order.
func TestOrderMatches(t *testing.T) {
	p, _ := graft(t, pod("", ""), settings(pending(nil)))
	restore := own(t, p, patches.ContainerRestore)
	with := func(edit func(*corev1.Container)) []byte {
		c := restore.DeepCopy()
		edit(c)
		return pod(`"initContainers":[`+string(encode(c))+`]`, "")
	}
	set := func(name, value string) func(*corev1.Container) {
		return func(c *corev1.Container) { c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value}) }
	}
	for _, c := range []struct {
		what string
		edit func(*corev1.Container)
		ok   bool
	}{
		{"the same", func(*corev1.Container) {}, true},
		{"another request", set(api.EnvRestoreID, "r/other"), false},
		{"no request", func(c *corev1.Container) { c.Env = c.Env[:1] }, false},
		{"another backup", set(patches.EnvBackup, "b2"), false},
		{"another node's", set(patches.EnvRestoreSource, "db-1"), false},
		{"another action", set(patches.EnvRestoreAction, "empty"), false},
		{"nothing kept", func(c *corev1.Container) {
			c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == patches.EnvKeepPrevious })
		}, false},
		{"another mode", set(patches.EnvRestoreMode, "Remote"), false},
		{"one that is not waited for", func(c *corev1.Container) { c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways) }, false},
	} {
		_, err := build(t, with(c.edit), settings(pending(nil)))
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.what, err)
		}
		var conflict *patches.Conflict
		if err != nil && (!errors.As(err, &conflict) || conflict.Reason != workload.ReasonBadAnnotation || !strings.Contains(conflict.Message, "Restore r ")) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	// Nor may one of a Restore stand for the template's.
	if _, err := build(t, with(func(*corev1.Container) {}), settings(func(s *patches.Settings) { s.Restore = "b1" })); err == nil {
		t.Error("a container of a Restore is taken for the template's")
	}
}

func TestImpossibleOrder(t *testing.T) {
	remote := func(tokens ...string) func(*patches.Settings) {
		return pending(func(o *api.Order) { o.Mode, o.Tokens = api.Remote, tokens })
	}
	for _, c := range []struct {
		what   string
		raw    []byte
		change func(*patches.Settings)
		say    string
	}{
		{"its node is named", pod(`"nodeName":"n1"`, ""), pending(nil), "nodeName n1"},
		{"no tokens", pod("", ""), remote(), "tokens"},
		{"no token", pod("", ""), remote("5", ""), `"" is no token`},
		{"a token and more", pod("", ""), remote("5 -Dx=y"), "is no token"},
		{"bytes", pod("", ""), remote("Token(bytes[61])"), "is no token"},
	} {
		_, err := build(t, c.raw, settings(c.change))
		var conflict *patches.Conflict
		if !errors.As(err, &conflict) || conflict.Reason != workload.ReasonCannotRestore || !strings.Contains(conflict.Message, c.say) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if _, err := build(t, bytes.Replace(anna("", ""), []byte(`"value":"memory"`), []byte(`"value":"mn"`), 1), settings(pending(nil))); err == nil || !strings.Contains(err.Error(), "nothing to restore") {
		t.Errorf("monitoring: %v", err)
	}
	if _, err := build(t, anna("", ""), settings(pending(func(o *api.Order) { *o = api.Order{Tidy: true} }))); err != nil {
		t.Errorf("tidy of anna: %v", err)
	}
}
