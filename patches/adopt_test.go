package patches_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
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

// The containers take the binary when it comes, not before it is there, and run what they
// took: from a volume that nothing is executed on, and when the file is gone. Neither an
// earlier pod's nor one of an earlier round counts; one of a later round does.
func TestAdoptTakes(t *testing.T) {
	for _, c := range []struct{ what, number string }{{"its own round's", "7"}, {"a later one's", "10"}} {
		volume, own := filepath.Join(t.TempDir(), "with space"), t.TempDir()
		bring := func(number, pod, says string) {
			t.Helper()
			dir := filepath.Join(volume, number)
			binary := filepath.Join(dir, "stategraft-agent-"+pod)
			err := os.MkdirAll(dir, 0o755)
			if err == nil {
				err = os.WriteFile(binary+".new", []byte("#!/bin/sh\necho \"$0 $@ "+says+"\"\n"), 0o644) // not executable
			}
			if err == nil {
				err = os.Rename(binary+".new", binary)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		bring("6", "uid-1", "of an earlier round")
		bring("7", "uid-0", "of an earlier pod")
		bring("11", "uid-0", "of an earlier pod")
		cmd := taking(t, own)
		cmd.Env = append(os.Environ(), patches.EnvAdoptedDir+"="+filepath.Join(volume, "7"), "POD_UID=uid-1")
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		bring(c.number, "uid-1", "of "+c.what)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%s: %v: %s", c.what, err, out.String())
		}
		if want := own + "/stategraft-agent adopted medusa of " + c.what + "\n"; out.String() != want {
			t.Errorf("%s: it ran %q, want %q", c.what, out.String(), want)
		}
	}
}

// taking is the command of a container that takes the binary.
func taking(t *testing.T, own string) *exec.Cmd {
	t.Helper()
	c := mustAdopt(t, pod("", ""), patches.Default())[patches.ContainerMedusa]
	script := slices.Clone(c.Command)
	script[2] = strings.ReplaceAll(script[2], "b=/tmp/", "b="+own+"/")
	if script[2] == c.Command[2] {
		t.Fatalf("%s does not run from /tmp", c.Command[2])
	}
	return exec.CommandContext(t.Context(), script[0], script[1:]...)
}

// A container that waits for the binary ends at once when it is asked to, with status 0; and
// with another one in an image that has no program to sleep, where it would turn without end.
func TestAdoptWaits(t *testing.T) {
	for _, c := range []struct {
		what, path string
		code       int
	}{{"asked to end", os.Getenv("PATH"), 0}, {"no sleep", t.TempDir(), 1}} {
		cmd := taking(t, t.TempDir())
		cmd.Env = []string{"PATH=" + c.path, patches.EnvAdoptedDir + "=" + filepath.Join(t.TempDir(), "1"), "POD_UID=u"}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if c.code == 0 {
			for !caught(t, cmd.Process.Pid, syscall.SIGTERM) {
				time.Sleep(5 * time.Millisecond)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
		<-ended
		if got := cmd.ProcessState.ExitCode(); got != c.code {
			t.Errorf("%s: status %d, want %d", c.what, got, c.code)
		}
	}
}

// caught tells whether a process has said what it does at a signal (proc_pid_status(5), SigCgt).
func caught(t *testing.T, pid int, signal syscall.Signal) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "SigCgt:")
	mask, err := strconv.ParseUint(strings.Fields(rest)[0], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask&(1<<(signal-1)) != 0
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
