package patches_test

import (
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// pod makes a Cassandra pod with more members of spec and of the container, as
// JSON; a later member wins over one of the same name before.
func pod(spec, container string) []byte {
	join := func(base, more string) string {
		var object, added map[string]json.RawMessage
		must(json.Unmarshal([]byte(base), &object))
		must(json.Unmarshal([]byte("{"+more+"}"), &added))
		for key, value := range added {
			object[key] = value
		}
		text, err := json.Marshal(object)
		must(err)
		return string(text)
	}
	c := join(`{"name":"cassandra","image":"cassandra:4.1","ports":[{"containerPort":9042},{"containerPort":7000}],
	 "volumeMounts":[{"name":"data","mountPath":"/var/lib/cassandra"}]}`, container)
	s := join(`{"volumes":[{"name":"data","emptyDir":{}}],"containers":[`+c+`]}`, spec)
	return []byte(`{"metadata":{"name":"db-0","labels":{"app":"db"}},"spec":` + s + `}`)
}

// anna makes a pod of Anna's memory tier.
func anna(spec, container string) []byte {
	return []byte(strings.NewReplacer(`"cassandra:4.1"`, `"hydroproject/anna","env":[{"name":"SERVER_TYPE","value":"memory"}]`, `"name":"cassandra"`, `"name":"kvs"`, `,"ports":[{"containerPort":9042},{"containerPort":7000}]`, "").
		Replace(string(pod(spec, container))))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// build recognises and builds, without annotations in between.
func build(t *testing.T, raw []byte, s patches.Settings) (*patches.Patch, error) {
	t.Helper()
	parsed, err := workload.Parse(raw)
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	d := workload.Recognize(parsed, workload.Hints{NamespaceLabelled: true})
	if d.Verdict != workload.Inject {
		t.Fatalf("%s (%s) %s: %s", d.Verdict, d.Reason, d.Message, raw)
	}
	return patches.Build(parsed, d.Workload, s)
}

// graft gives the pod with its patch; a second build has to find it whole.
func graft(t *testing.T, raw []byte, s patches.Settings) (corev1.Pod, *patches.Patch) {
	t.Helper()
	patch, err := build(t, raw, s)
	if err != nil {
		t.Fatal(err)
	}
	text, err := patches.Marshal(patch.Operations)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	result, err := decoded.Apply(raw)
	if err != nil {
		t.Fatalf("%v: %s on %s", err, text, raw)
	}
	if again, err := build(t, result, s); err != nil || len(again.Operations) > 0 {
		t.Errorf("the second time: %v, %+v", err, again)
	}
	var out corev1.Pod
	if err := json.Unmarshal(result, &out); err != nil {
		t.Fatal(err)
	}
	return out, patch
}

func settings(change func(*patches.Settings)) patches.Settings {
	s := patches.Default()
	change(&s)
	return s
}

// own finds an injected container.
func own(t *testing.T, p corev1.Pod, name string) corev1.Container {
	t.Helper()
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range list {
			if c.Name == name {
				return c
			}
		}
	}
	t.Fatalf("there is no container %s", name)
	return corev1.Container{}
}

func variable(c corev1.Container, name string) string {
	for _, v := range c.Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// Which containers a pod is given, in order.
func TestContainers(t *testing.T) {
	restore := func(s *patches.Settings) { s.Restore = "b" }
	old := func(s *patches.Settings) { s.NativeSidecars = false }
	for _, c := range []struct {
		what             string
		raw              []byte
		change           func(*patches.Settings)
		init, containers string
	}{
		{"nodetool", pod("", ""), func(*patches.Settings) {}, "", "cassandra agent snapshot medusa"},
		{"management API", pod("", `"image":"k8ssandra/cass-management-api:4.1"`), func(*patches.Settings) {}, "", "cassandra agent medusa"},
		{"restore", pod(`"initContainers":[{"name":"a"},{"name":"b"}]`, ""), restore, "a b setup restore", "cassandra agent snapshot medusa"},
		{"restore, none before", pod(`"initContainers":null`, ""), restore, "setup restore", "cassandra agent snapshot medusa"},
		{"restore before the database", pod(`"initContainers":[{"name":"a"},{"name":"commitlog-replayer"},{"name":"b"}]`, ""), restore, "a setup restore commitlog-replayer b", "cassandra agent snapshot medusa"},
		{"restore first of all", pod(`"initContainers":[{"name":"commitlog-replayer"}]`, ""), restore, "setup restore commitlog-replayer", "cassandra agent snapshot medusa"},
		{"others between", pod(`"containers":[{"name":"first"},`+container(pod("", ""))+`,{"name":"last"}]`, ""), func(*patches.Settings) {}, "", "first cassandra last agent snapshot medusa"},
		{"anna", anna("", ""), func(*patches.Settings) {}, "setup agent", "kvs"},
		{"anna, old cluster", anna("", ""), old, "setup", "kvs agent"},
		{"anna, restore", anna(`"initContainers":[{"name":"a"}]`, ""), restore, "a setup restore agent", "kvs"},
	} {
		p, _ := graft(t, c.raw, settings(c.change))
		list := func(containers []corev1.Container) string {
			var names []string
			for _, container := range containers {
				names = append(names, strings.TrimPrefix(container.Name, workload.OwnPrefix))
			}
			return strings.Join(names, " ")
		}
		if got := list(p.Spec.InitContainers); got != c.init {
			t.Errorf("%s: init containers %q, want %q", c.what, got, c.init)
		}
		if got := list(p.Spec.Containers); got != c.containers {
			t.Errorf("%s: containers %q, want %q", c.what, got, c.containers)
		}
	}
}

// container is the first container of a pod.
func container(raw []byte) string {
	var p struct {
		Spec struct{ Containers []json.RawMessage }
	}
	must(json.Unmarshal(raw, &p))
	return string(p.Spec.Containers[0])
}

// The data are mounted read-only where nothing is restored, as the database has
// them, with the variables that its paths need, each once.
func TestDataMounts(t *testing.T) {
	mounts := `"volumeMounts":[{"name":"data","mountPath":"/var/lib/cassandra/","subPathExpr":"$(NODE)/d"},
	 {"name":"data","mountPath":"/var/lib/cassandra/commitlog","subPathExpr":"$(NODE)/c"},
	 {"name":"conf","mountPath":"/etc/cassandra","subPathExpr":"$(NODE)-$(EMPTY)","readOnly":true}],
	 "env":[{"name":"NODE","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},{"name":"EMPTY","value":""},{"name":"OTHER","value":"x"}]`
	raw := pod(`"volumes":[{"name":"data","emptyDir":{}},{"name":"conf","emptyDir":{}}]`, mounts)
	p, _ := graft(t, raw, settings(func(s *patches.Settings) { s.Restore = "b" }))
	for name, writes := range map[string]bool{patches.ContainerMedusa: false, patches.ContainerRestore: true} {
		found := 0
		for _, m := range own(t, p, name).VolumeMounts {
			if m.Name == "data" {
				found++
				if m.ReadOnly == writes || m.SubPathExpr == "" {
					t.Errorf("%s: mount %+v", name, m)
				}
			}
		}
		if found != 2 {
			t.Errorf("%s has %d mounts of the data", name, found)
		}
	}
	for _, c := range append(p.Spec.InitContainers, p.Spec.Containers[1:]...) {
		for _, m := range c.VolumeMounts {
			for _, needed := range []string{"NODE", "EMPTY"} {
				count := 0
				for _, v := range c.Env {
					if v.Name == needed {
						count++
					}
				}
				if strings.Contains(m.SubPathExpr, "$("+needed+")") && count != 1 {
					t.Errorf("%s mounts %s and has variable %s %d times", c.Name, m.MountPath, needed, count)
				}
			}
		}
	}
}

// What the encoder of the patch makes of every kind of value is what
// encoding/json makes of it.
func TestMarshalSources(t *testing.T) {
	raw := pod("", `"env":[
	 {"name":"NODETOOL_A","valueFrom":{"secretKeyRef":{"name":"s","key":"k","optional":false}}},
	 {"name":"NODETOOL_B","valueFrom":{"configMapKeyRef":{"name":"","key":""}}},
	 {"name":"NODETOOL_C","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}},
	 {"name":"NODETOOL_D","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}},
	 {"name":"NODETOOL_E","valueFrom":{"someday":{}}},
	 {"name":"NODETOOL_F","value":"<&>\u2028\"\\"},{"name":"JAVA_HOME","valueFrom":null,"value":"/j"}],
	 "securityContext":{"runAsUser":999,"seLinuxOptions":{"level":"s0:c1","x":[1.50]}}`)
	p, patch := graft(t, raw, patches.Default())
	snapshot := own(t, p, patches.ContainerSnapshot)
	for name, want := range map[string]bool{"NODETOOL_A": true, "NODETOOL_B": true, "NODETOOL_C": true, "NODETOOL_D": true, "NODETOOL_E": false, "NODETOOL_F": true, "JAVA_HOME": true} {
		found := false
		for _, v := range snapshot.Env {
			found = found || v.Name == name
			if from := v.ValueFrom; v.Name == "NODETOOL_D" && (from.ResourceFieldRef == nil || from.ResourceFieldRef.ContainerName != "cassandra") {
				t.Errorf("%s is another container's: %+v", name, from) // without a name it would be of the container it is in
			}
			if from := v.ValueFrom; v.Name == name && from != nil && from.SecretKeyRef != nil && (from.SecretKeyRef.Optional == nil || !*from.SecretKeyRef.Optional) {
				t.Errorf("%s is not optional", name)
			}
		}
		if found != want {
			t.Errorf("%s: copied %v, want %v", name, found, want)
		}
	}
	if variable(snapshot, "NODETOOL_F") != "<&>\u2028\"\\" {
		t.Errorf("NODETOOL_F is %q", variable(snapshot, "NODETOOL_F"))
	}
	if o := snapshot.SecurityContext.SELinuxOptions; o == nil || o.Level != "s0:c1" {
		t.Errorf("seLinuxOptions %+v", o)
	}
	fast, err := patches.Marshal(patch.Operations)
	if err != nil {
		t.Fatal(err)
	}
	slow, err := json.Marshal(patch.Operations)
	if err != nil || !jsonpatch.Equal(fast, slow) {
		t.Errorf("%v:\n%s\n%s", err, fast, slow)
	}
}
