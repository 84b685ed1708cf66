package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"sigs.k8s.io/yaml"
)

const (
	database = "apiVersion: v1\nkind: Pod\nmetadata: {name: db-0}\nspec: {volumes: [{name: data, emptyDir: {}}], containers: [{name: cassandra, image: 'cassandra:4.1', ports: [{containerPort: 9042}], volumeMounts: [{name: data, mountPath: /var/lib/cassandra}]}]}\n"
	stranger = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: nginx, image: nginx}]}\n"
	service  = "apiVersion: v1\nkind: Service\nmetadata: {name: svc}\nspec: {ports: [{port: 80}]}\n"
	unmarked = "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns1}\n"
)

// build builds the command as users have it, under the name that kubectl finds.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "kubectl-stategraft")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

// TestExitStatus runs the built command with files and through a pipe.
func TestExitStatus(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	binary, dir := build(t), t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	inject, explain := []string{"inject", "-f", "-"}, []string{"explain", "-f", "-"}
	with := func(args []string, more ...string) []string { return append(append([]string{}, args...), more...) }
	broken := database + "---\n" + strings.Replace(stranger, "image: nginx", "image: 5", 1)
	for _, c := range []struct {
		what, in string
		args     []string
		status   int
		out      string // a part of standard output; empty for none at all
		notes    string // a part of standard error
	}{
		{"injected", database, inject, 0, "name: stategraft-medusa", ""},
		{"skipped comes out as it is", stranger, inject, 0, "image: nginx", "Pod web: skipped (not-a-database)"},
		{"explained", database, explain, 0, "db-0: inject", ""},
		{"explained in JSON", stranger, with(explain, "-o", "json"), 0, `"reason":"not-a-database"`, ""},
		{"patch", database, with(inject, "-o", "patch"), 0, `[{"op":"add"`, ""},
		{"no patch", stranger, with(inject, "-o", "patch"), 0, "[]\n", "skipped"},
		{"refused", stranger, with(inject, "--annotation", "restore=b"), 1, "", "Pod web: refused (not-a-database)"},
		{"refused, explained", stranger, with(explain, "--annotation", "restore=b", "-o", "json"), 1, `"decision":"refuse"`, ""},
		{"one of two refused", database + "---\n" + stranger, with(inject, "--annotation", "restore=b"), 1, "name: stategraft-restore", "refused"},
		{"whole key", database, with(inject, "--annotation", "stategraft.io/restore=b"), 0, "name: stategraft-restore", ""},
		{"bad value", database, with(explain, "--annotation", "spread=rack"), 0, "bad-annotation", ""},
		{"bad value for the controller", database, with(explain, "--annotation", "backup-schedule=0 25 * * *"), 0, `annotation stategraft.io/backup-schedule of the pod is "0 25 * * *"`, ""},
		{"and injected all the same", database, with(inject, "--annotation", "rpo=soon"), 0, "name: stategraft-medusa", ""},
		{"namespace not labelled", database, with(explain, "--namespace-file", file("ns.yaml", unmarked)), 0, "namespace-not-labelled", ""},
		{"from a file", "", []string{"explain", "-f", file("a.yaml", database), "-f", file("b.yaml", stranger)}, 0, "web: skip", ""},
		{"others pass", service + "---\n" + database, with(inject, "--pass-others"), 0, "kind: Service", ""},
		{"others do not", service, inject, 2, "", "standard input: document 1: field kind: Service svc"},
		{"nothing before an error", broken, inject, 2, "", "standard input: document 2: field spec.containers[0].image"},
		{"a file's name", "", []string{"explain", "-f", file("c.yaml", broken)}, 2, "", filepath.Join(dir, "c.yaml") + ": document 2: field spec.containers[0].image"},
		{"no YAML", "a: [", inject, 2, "", "standard input: document 1"},
		{"nothing", "", explain, 2, "", "no document"},
		{"no file", "", []string{"explain", "-f", filepath.Join(dir, "none.yaml")}, 2, "", "none.yaml"},
		{"no input", "", []string{"explain"}, 2, "", "give -f FILE"},
		{"no such output", database, with(explain, "-o", "xml"), 2, "", "text or json"},
		{"no such output of inject", database, with(inject, "-o", "text"), 2, "", "yaml, json or patch"},
		{"no such flag", database, with(inject, "--no-such"), 2, "", "no-such"},
		{"no such command", "", []string{"graft"}, 2, "", "graft"},
		{"stray argument", database, with(inject, "pod.yaml"), 2, "", "pod.yaml"},
		{"annotation without value", database, with(inject, "--annotation", "restore"), 2, "", "KEY=VALUE"},
		{"bad configuration", database, with(inject, "--config", file("bad.yaml", configHead+"x: y\n")), 2, "", "bad.yaml"},
		{"bad namespace file", database, with(inject, "--namespace-file", file("pod.yaml", stranger)), 2, "", "pod.yaml: document 1: field kind"},
	} {
		command := exec.CommandContext(t.Context(), binary, c.args...)
		command.Stdin = strings.NewReader(c.in) // which os/exec gives through a pipe
		var out, notes bytes.Buffer
		command.Stdout, command.Stderr = &out, &notes
		err := command.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if status := command.ProcessState.ExitCode(); status != c.status {
			t.Errorf("%s: status %d, want %d; %s", c.what, status, c.status, &notes)
		}
		if !strings.Contains(out.String(), c.out) || c.out == "" && out.Len() > 0 {
			t.Errorf("%s: output %q, want %q", c.what, &out, c.out)
		}
		if !strings.Contains(notes.String(), c.notes) || c.status == 2 && strings.Count(notes.String(), "\n") > 2 {
			t.Errorf("%s: standard error %q, want %q", c.what, &notes, c.notes)
		}
	}
}

// The three formats of inject are of one result, and its output is input again.
func TestFormats(t *testing.T) {
	in := database + "---\n" + stranger
	asYAML, _, err := run([]byte(in), "inject", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	again, notes, err := run([]byte(asYAML), "inject", "-f", "-")
	if err != nil || again != asYAML || !strings.Contains(notes, "already-injected") {
		t.Errorf("again: %v, %s\n%s", err, notes, again)
	}
	asJSON, _, err := run([]byte(database), "inject", "-f", "-", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	patch, _, err := run([]byte(database), "inject", "-f", "-", "-o", "patch")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.YAMLToJSON([]byte(database))
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := jsonpatch.DecodePatch([]byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	applied, err := decoded.Apply(raw)
	if err != nil || !jsonpatch.Equal(applied, []byte(asJSON)) {
		t.Errorf("%v: the patch gives\n%s\nand json\n%s", err, applied, asJSON)
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(asYAML, "---\n"), "---\n")
	fromYAML, err := yaml.YAMLToJSON([]byte(first))
	if err != nil || !jsonpatch.Equal(fromYAML, []byte(asJSON)) {
		t.Errorf("%v: yaml gives\n%s\nand json\n%s", err, fromYAML, asJSON)
	}
	// With JSON in between, JSON in and out.
	again, _, err = run([]byte(asJSON+asJSON), "inject", "-f", "-", "-o", "json")
	if err != nil || again != asJSON+asJSON {
		t.Errorf("a stream of JSON, again: %v\n%s", err, again)
	}
}
