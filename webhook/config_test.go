package webhook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

func TestParseConfig(t *testing.T) {
	for _, c := range []struct{ what, text, problem string }{
		{"empty", "", "0 documents"},
		{"head", configHead, ""},
		{"everything", configHead + `
annotations: {spread: host, storage-secret: none, colocate-with: a=b}
medusa: {anyUIDImage: registry.local:5000/medusa}
resources: {agent: {requests: {cpu: 1m}}, snapshot: {limits: {memory: 1Gi}}, medusa: {limits: {cpu: 1}}, anna: {requests: {ephemeral-storage: 1Gi}}}
nativeSidecars: never
`, ""},
		{"no head", "nativeSidecars: auto\n", "apiVersion"},
		{"other kind", strings.Replace(configHead, ConfigKind, "Pod", 1), `"Pod"`},
		{"other version", strings.Replace(configHead, "v1alpha1", "v2", 1), "v2"},
		{"unknown field", configHead + "nativeSidecar: auto\n", "nativeSidecar"},
		{"unknown field inside", configHead + "medusa: {image: x}\n", "image"},
		{"twice", configHead + "nativeSidecars: auto\nnativeSidecars: never\n", "nativeSidecars"},
		{"no YAML", configHead + "\t:", ""},
		{"bad choice", configHead + "nativeSidecars: yes please\n", "auto, always or never"},
		{"unknown annotation", configHead + "annotations: {spraed: host}\n", "did you mean spread?"},
		{"with its prefix", configHead + "annotations: {stategraft.io/spread: host}\n", "is written without stategraft.io/ here"},
		{"in quotes", configHead + "annotations: {grpc-tls: 'off'}\n", ""},
		{"without quotes", configHead + "annotations: {grpc-tls: off}\n", "in quotes"},
		{"a schedule for all", configHead + "annotations: {backup-schedule: '@daily'}\n", "it belongs on a namespace or a pod"},
		{"Services for all", configHead + "annotations: {expose: LoadBalancer}\n", "expose cannot be a default; it belongs on a namespace or a pod"},
		{"restarts for all", configHead + "annotations: {on-config-change: restart}\n", "it belongs on a namespace or a pod"},
		{"bad value", configHead + "annotations: {spread: rack}\n", "annotation stategraft.io/spread of the configuration"},
		{"restore", configHead + "annotations: {restore: b}\n", "restore cannot be a default"},
		{"restore-source", configHead + "annotations: {restore-source: b}\n", "restore-source cannot be a default"},
		{"container", configHead + "annotations: {container: b}\n", "container cannot be a default"},
		{"data-volume", configHead + "annotations: {data-volume: b}\n", "data-volume cannot be a default"},
		{"bad image", configHead + "medusa: {anyUIDImage: 'A B'}\n", "medusa.anyUIDImage"},
		{"empty resources", configHead + "resources: {agent: {}}\n", "resources.agent"},
		{"bad quantity", configHead + "resources: {agent: {limits: {cpu: lots}}}\n", "quantit"},
		{"strange resource", configHead + "resources: {medusa: {limits: {gpu: 1}}}\n", "resources.medusa: gpu"},
		{"request above limit", configHead + "resources: {anna: {requests: {cpu: 2}, limits: {cpu: 1}}}\n", "resources.anna"},
		{"claims", configHead + "resources: {anna: {claims: [{name: x}]}}\n", "resources.anna"},
	} {
		config, err := ParseConfig([]byte(c.text))
		switch {
		case c.what == "no YAML" && err != nil:
		case c.problem == "" && (err != nil || config == nil):
			t.Errorf("%s: %v", c.what, err)
		case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%s: error %v, want one that says %q", c.what, err, c.problem)
		}
	}
}

func TestNativeSidecarsChoice(t *testing.T) {
	raw := corpus(t)["anna-memory"]
	for choice, want := range map[string][2]bool{"auto": {false, true}, "always": {true, true}, "never": {false, false}} {
		config, err := ParseConfig([]byte(configHead + "nativeSidecars: " + choice))
		if err != nil {
			t.Fatal(err)
		}
		for i, cluster := range []bool{false, true} {
			out := Decide(Input{Pod: raw, Namespace: labelled(), Config: config, NativeSidecars: cluster})
			if got := len(out.Patch.Containers) == 0; got != want[i] {
				t.Errorf("%s, cluster %v: native is %v", choice, cluster, got)
			}
		}
	}
}

// A broken file leaves the last good configuration, is said once, and a mended
// one is taken up.
func TestConfigReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenConfig(path, logr.Discard()); err == nil {
		t.Error("a file that is not there is no error at the start")
	}
	write("kind: x")
	if _, err := OpenConfig(path, logr.Discard()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a wrong file at the start: %v", err)
	}
	write(configHead + "annotations: {spread: host}")
	file, err := OpenConfig(path, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	count := func(result string) float64 { return counted(t, "stategraft_config_reloads_total", "result", result) }
	good, bad := count("good"), count("bad")
	for _, step := range []struct {
		what, text, spread string
		good, bad          float64
	}{
		{"unchanged", configHead + "annotations: {spread: host}", "host", 0, 0},
		{"changed", configHead + "annotations: {spread: zone}", "zone", 1, 0},
		{"broken", configHead + "annotations: {spread: rack}", "zone", 1, 1},
		{"still broken", configHead + "annotations: {spread: rack}", "zone", 1, 1},
		{"broken otherwise", "{", "zone", 1, 2},
		{"mended", configHead + "annotations: {spread: zone}", "zone", 2, 2},
		{"gone", "", "zone", 2, 3},
		{"back and changed", configHead + "annotations: {spread: host}", "host", 3, 3},
		{"emptied, as a writer that is cut short leaves it", " \n", "host", 3, 4},
	} {
		if step.text == "" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else {
			write(step.text)
		}
		file.reload()
		if got := file.Config().defaults["stategraft.io/spread"]; got != step.spread {
			t.Errorf("%s: spread is %q, want %q", step.what, got, step.spread)
		}
		if g, b := count("good")-good, count("bad")-bad; g != step.good || b != step.bad {
			t.Errorf("%s: %v good and %v bad reloads counted, want %v and %v", step.what, g, b, step.good, step.bad)
		}
	}
}

func TestNoConfigFile(t *testing.T) {
	file, err := OpenConfig("", logr.Discard())
	if err != nil || file.Config() == nil {
		t.Fatal(err)
	}
	if err := file.Start(t.Context()); err != nil {
		t.Error(err)
	}
}
