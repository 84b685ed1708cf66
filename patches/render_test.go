package patches_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/patches"
)

// env marks variables that a pod of Anna's has besides.
func env(list string) string { return envMark + list }

const envMark = "env:"

func withEnv(marked string) []byte {
	return []byte(strings.Replace(string(anna("", "")), `"value":"memory"}`, `"value":"memory"},`+strings.TrimPrefix(marked, envMark), 1))
}

// Where the setup container writes the configuration, and what the agent sees of it.
func TestRender(t *testing.T) {
	withMap := settings(func(s *patches.Settings) { s.ConfigMap = "conf" })
	const ours = "stategraft-conf:/hydro/anna/conf#kvs"
	for _, c := range []struct {
		what, spec, container string
		settings              patches.Settings
		render, in, agent     string // directory, the container's mount, the agent's
		warn                  string
	}{
		{"upstream's entry point", "", "", withMap, "/stategraft-conf/kvs", ours, "stategraft-conf:/stategraft-conf/kvs#kvs:ro", ""},
		{"no ConfigMap", "", "", patches.Default(), "", "", "", ""},
		{"no ConfigMap, a directory of its own", `"volumes":[{"name":"data","emptyDir":{}},{"name":"c","emptyDir":{}}]`, `"volumeMounts":[{"name":"c","mountPath":"/hydro/anna/conf"}]`,
			patches.Default(), "", "", "c:/stategraft-conf/kvs:ro", ""},
		{"a directory of its own", `"volumes":[{"name":"data","emptyDir":{}},{"name":"c","emptyDir":{}}]`, `"volumeMounts":[{"name":"c","mountPath":"/hydro/anna/conf/"}]`,
			withMap, "/stategraft-conf/kvs", "", "c:/stategraft-conf/kvs:ro", ""},
		{"read-only", `"volumes":[{"name":"data","emptyDir":{}},{"name":"c","configMap":{"name":"x"}}]`, `"volumeMounts":[{"name":"c","mountPath":"/hydro/anna/conf"}]`,
			withMap, "", "", "", "cannot be written"},
		{"a file in it", `"volumes":[{"name":"data","emptyDir":{}},{"name":"c","configMap":{"name":"x"}}]`, `"volumeMounts":[{"name":"c","mountPath":"/hydro/anna/conf/anna-config.yml","subPath":"a"}]`,
			withMap, "", "", "", "cannot be written"},
		{"another home", "", env(`{"name":"HYDRO_HOME","value":"/srv"}`), withMap,
			"/stategraft-conf/kvs", "stategraft-conf:/srv/anna/conf#kvs", "stategraft-conf:/stategraft-conf/kvs#kvs:ro", ""},
		{"a plain command", "", `"command":["./anna-kvs"],"workingDir":"/opt/anna"`, withMap,
			"/stategraft-conf/kvs", "stategraft-conf:/opt/anna/conf#kvs", "stategraft-conf:/stategraft-conf/kvs#kvs:ro", ""},
		{"a script, which goes elsewhere", "", `"command":["bash","start-anna.sh","memory"],"workingDir":"/opt/anna"`, withMap,
			"/stategraft-conf/kvs", ours, "stategraft-conf:/stategraft-conf/kvs#kvs:ro", ""},
		{"it says where it reads", "", env(`{"name":"ANNA_CONF_BASE","value":"/etc/anna/anna-config.yml"}`), withMap, "", "", "", ""},
		{"it writes the file itself", "", `"command":["bash","-c","cat /etc/anna/x >> \"conf/anna-config.yml\"; anna-kvs"]`, withMap, "", "", "", ""},
	} {
		var raw []byte
		if strings.HasPrefix(c.container, envMark) {
			raw = withEnv(c.container)
		} else {
			raw = anna(c.spec, c.container)
		}
		p, patch := graft(t, raw, c.settings)
		setup, agent, kvs := own(t, p, patches.ContainerSetup), own(t, p, patches.ContainerAgent), p.Spec.Containers[0]
		dir := ""
		for _, r := range decode(t, variable(setup, patches.EnvRender)) {
			dir = r["dir"]
			if r["container"] != "kvs" || r["kind"] != "anna" || r["role"] != "memory" {
				t.Errorf("%s: %v", c.what, r)
			}
		}
		if dir != c.render {
			t.Errorf("%s: rendered into %q, want %q", c.what, dir, c.render)
		}
		if dir != "" && !slices.ContainsFunc(mounts(setup), func(m string) bool {
			return strings.Contains(m, ":"+dir) && !strings.HasSuffix(m, ":ro")
		}) {
			t.Errorf("%s: setup cannot write into it: %q", c.what, mounts(setup))
		}
		find := func(list []string, part string) string {
			if at := slices.IndexFunc(list, func(m string) bool { return strings.Contains(m, part) }); at >= 0 {
				return list[at]
			}
			return ""
		}
		if got := find(mounts(kvs), patches.VolumeConf+":"); got != c.in {
			t.Errorf("%s: the node has %q, want %q", c.what, got, c.in)
		}
		if got := find(mounts(agent), patches.DirConf); got != c.agent || (variable(agent, patches.EnvConfDir) != "") != (c.agent != "") {
			t.Errorf("%s: the agent has %q, want %q; %s=%s", c.what, got, c.agent, patches.EnvConfDir, variable(agent, patches.EnvConfDir))
		}
		if all := strings.Join(patch.Warnings, "\n"); c.warn == "" && all != "" || !strings.Contains(all, c.warn) {
			t.Errorf("%s: warnings %q", c.what, all)
		}
	}
}

// executors are two of Cloudburst's and their cache.
func executors(mounts ...string) []byte {
	var list []string
	for i, image := range []string{"hydroproject/cloudburst", "hydroproject/cloudburst", "hydroproject/anna-cache"} {
		m := "null"
		if i < len(mounts) && mounts[i] != "" {
			m = `[{"name":"` + mounts[i] + `","mountPath":"/requests"}]`
		}
		list = append(list, fmt.Sprintf(`{"name":"c%d","image":%q,"env":[{"name":"THREAD_ID","value":"%d"}],"volumeMounts":%s}`, i, image, i, m))
	}
	return []byte(`{"metadata":{"name":"x-0","labels":{"app":"x"}},"spec":{"volumes":[{"name":"ipc","emptyDir":{}}],"containers":[` + strings.Join(list, ",") + `]}}`)
}

func TestExecutors(t *testing.T) {
	p, _ := graft(t, executors(), settings(func(s *patches.Settings) { s.ConfigMap = "conf" }))
	var got []string
	for _, r := range decode(t, variable(own(t, p, patches.ContainerSetup), patches.EnvRender)) {
		got = append(got, r["container"]+" "+r["kind"]+" "+r["threadID"])
	}
	if want := []string{"c0 cloudburst 0", "c1 cloudburst 1", "c2 cache 2"}; !slices.Equal(got, want) {
		t.Errorf("rendered %q, want %q", got, want)
	}
	if got, want := mounts(p.Spec.Containers[2]), []string{"stategraft-conf:/hydro/anna-cache/conf#c2", "stategraft-requests:/requests", "stategraft-config:/etc/anna:ro"}; !slices.Equal(got, want) {
		t.Errorf("the cache has %q, want %q", got, want)
	}
}

func TestRequests(t *testing.T) {
	for _, c := range []struct {
		mounts []string
		given  int
		warn   bool
	}{{nil, 3, false}, {[]string{"ipc", "ipc", "ipc"}, 0, false}, {[]string{"ipc", "", "ipc"}, 0, true}} {
		p, patch := graft(t, executors(c.mounts...), patches.Default())
		given := 0
		for _, container := range p.Spec.Containers {
			given += len(slices.DeleteFunc(mounts(container), func(m string) bool { return m != "stategraft-requests:/requests" }))
		}
		if given != c.given || strings.Contains(strings.Join(patch.Warnings, "\n"), "/requests") != c.warn {
			t.Errorf("%q: given to %d, want %d; %q", c.mounts, given, c.given, patch.Warnings)
		}
	}
}

// The address is in a file before the node starts; one that takes it from elsewhere is told.
func TestExpose(t *testing.T) {
	expose := settings(func(s *patches.Settings) { s.Expose = true })
	p, _ := graft(t, anna("", ""), expose)
	setup := own(t, p, patches.ContainerSetup)
	if variable(setup, patches.EnvExpose) != "true" || !slices.Contains(mounts(setup), "stategraft-podinfo:/etc/stategraft/podinfo:ro") {
		t.Errorf("setup: %+v %q", setup.Env, mounts(setup))
	}
	found := false
	for _, v := range p.Spec.Volumes {
		if v.DownwardAPI != nil {
			item := v.DownwardAPI.Items[0]
			found = item.Path == "public-address" && item.FieldRef.FieldPath == "metadata.annotations['stategraft.io/public-address']"
		}
	}
	if !found {
		t.Errorf("volumes %+v", p.Spec.Volumes)
	}
	for what, raw := range map[string][]byte{"routing": tier("r", "", ""), "Cassandra": pod("", "")} {
		if p, patch := graft(t, raw, expose); slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return variable(c, patches.EnvExpose) != "" }) || len(patch.Warnings) > 0 {
			t.Errorf("%s waits for an address, or is warned: %q", what, patch.Warnings)
		}
	}
	own := withEnv(env(`{"name":"ANNA_CONF_BASE","value":"/etc/anna/a.yml"},{"name":"PUBLIC_IP","value":"1.2.3.4"}`))
	if _, patch := graft(t, own, expose); !strings.Contains(strings.Join(patch.Warnings, "\n"), "PUBLIC_IP") {
		t.Errorf("warnings %q", patch.Warnings)
	}
}
