package medusa

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/agent/files"
)

func write(t *testing.T, path, content string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind(t *testing.T) {
	home := t.TempDir()
	if _, err := Find(home, ""); !errors.Is(err, ErrNone) {
		t.Errorf("an image without Medusa: %v", err)
	}
	entry := write(t, filepath.Join(home, "docker-entrypoint.sh"), "", 0o755)
	image, err := Find(home, "")
	if spec := image.Serve("/x"); err != nil || spec.Path != entry || len(spec.Args) > 0 {
		t.Errorf("only the entry point: %+v, %v", spec, err)
	}
	python := write(t, filepath.Join(home, ".venv/bin/python"), "", 0o755)
	image, err = Find(home, "")
	spec := image.Serve("/x")
	if err != nil || spec.Path != python || len(spec.Args) != 4 || strings.Join(spec.Args[2:], " ") != "server.py /x" || spec.Dir != home {
		t.Errorf("%+v, %v", spec, err)
	}
	if image, err := Find(filepath.Join(home, "none"), "/other"); err != nil || image.Python != "/other" || image.Run().Dir != "/" {
		t.Errorf("%+v, %v", image, err)
	}
}

func TestEnv(t *testing.T) {
	t.Setenv("POD_IP", "own")
	t.Setenv("RESTORE_MAPPING", "{}")
	t.Setenv("PYTHONPATH", "/theirs")
	env := Image{Home: "/h"}.Env(map[string]string{"POD_IP": "other", "RESTORE_MAPPING": "", "NEW": "1"})
	for _, want := range []string{"POD_IP=other", "NEW=1", "PYTHONPATH=/theirs", "PYTHONUNBUFFERED=1"} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
	names := map[string]bool{}
	for _, variable := range env {
		name, _, _ := strings.Cut(variable, "=")
		if names[name] || name == "RESTORE_MAPPING" {
			t.Errorf("%s is there, or twice", name)
		}
		names[name] = true
	}
	if err := os.Unsetenv("PYTHONPATH"); err != nil {
		t.Fatal(err)
	}
	if env := (Image{Home: "/h"}).Env(nil); !slices.Contains(env, "PYTHONPATH=/h") {
		t.Errorf("%q", env)
	}
}

func TestConfigure(t *testing.T) {
	dir := t.TempDir()
	places := files.Places{Medusa: filepath.Join(dir, "medusa"), Storage: filepath.Join(dir, "secrets")}
	private := filepath.Join(dir, "private")
	if _, err := Configure(places, private, ""); err == nil || !strings.Contains(err.Error(), "stategraft-agent") {
		t.Errorf("nothing there: %v", err)
	}
	t.Setenv("STATEGRAFT_ADOPTED", "3")
	if _, err := Configure(places, private, ""); err == nil || !strings.Contains(err.Error(), "medusa.ini is not there yet; the log of this container tells what it waits for") {
		t.Errorf("nothing there, adopted: %v", err)
	}
	write(t, places.Ini(), "[storage]\nstorage_provider = s3\n", 0o600)
	if _, err := Configure(places, private, ""); err == nil || !strings.Contains(err.Error(), "[storage] bucket_name is missing") {
		t.Errorf("incomplete: %v", err)
	}
	write(t, places.Ini(), "[storage]\nstorage_provider = s3\nbucket_name = b\n[cassandra]\nconfig_file = /shared.yaml\n", 0o600)
	read := func() string {
		t.Helper()
		path, err := Configure(places, private, "a: 1\n")
		if err != nil {
			t.Fatal(err)
		}
		content, _ := os.ReadFile(path)
		return string(content)
	}
	if got := read(); strings.Contains(got, "key_file") || !strings.Contains(got, "config_file = /shared.yaml") {
		t.Errorf("without a Secret:\n%s", got)
	}
	write(t, places.Credentials(), "x", 0o600)
	if got := read(); !strings.Contains(got, "key_file = "+places.Credentials()) {
		t.Errorf("with a Secret:\n%s", got)
	}
	if info, _ := os.Stat(private); info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v", info.Mode())
	}
}

// TestConfigureWritesOnce has the files left alone where nothing changed.
func TestConfigureWritesOnce(t *testing.T) {
	dir := t.TempDir()
	places := files.Standard(dir)
	text := func(bucket string) {
		t.Helper()
		write(t, places.Ini(), "[storage]\nstorage_provider = s3\nbucket_name = "+bucket+"\n[cassandra]\nconfig_file = "+places.Yaml()+"\n", 0o600)
	}
	configure := func() (ini, yaml os.FileInfo) {
		t.Helper()
		path, err := Configure(places, filepath.Join(dir, "private"), "a: 1\n")
		if err != nil {
			t.Fatal(err)
		}
		ini, err = os.Stat(path)
		yaml, err2 := os.Stat(filepath.Join(filepath.Dir(path), "cassandra.yaml"))
		if err = errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return ini, yaml
	}
	text("b")
	ini, yaml := configure()
	if again, yamlAgain := configure(); !os.SameFile(ini, again) || !os.SameFile(yaml, yamlAgain) {
		t.Error("written again without a change")
	}
	text("c")
	if other, yamlAgain := configure(); os.SameFile(ini, other) || !os.SameFile(yaml, yamlAgain) {
		t.Error("only medusa.ini changed: it is to be written, and the other not")
	}
}

func TestLine(t *testing.T) {
	for line, want := range map[string][2]string{
		"[2026-01-01 00:00:00,000] ERROR: no: such": {"ERROR", "no: such"},
		"[x] INFO: ":           {"INFO", ""},
		"[x] Traceback: y":     {"", "[x] Traceback: y"},
		"plain":                {"", "plain"},
		"ValueError: a [b] c:": {"", "ValueError: a [b] c:"},
	} {
		if level, message := Line(line); level != want[0] || message != want[1] {
			t.Errorf("%q: %q %q", line, level, message)
		}
	}
}

// TestConfigureAs has another prefix, and a cassandra.yaml that Medusa may write to.
func TestConfigureAs(t *testing.T) {
	dir := t.TempDir()
	places := files.Places{Medusa: filepath.Join(dir, "medusa"), Storage: filepath.Join(dir, "secrets")}
	private := filepath.Join(dir, "private")
	shared := write(t, filepath.Join(dir, "shared.yaml"), "cluster_name: theirs\n", 0o400)
	own := filepath.Join(private, "cassandra.yaml")
	write(t, places.Ini(), "[storage]\nstorage_provider = s3\nbucket_name = b\nprefix = own\n[cassandra]\nconfig_file = "+shared+"\n", 0o600)
	read := func(o Override) string {
		t.Helper()
		path, err := ConfigureAs(places, private, "", o)
		if err != nil {
			t.Fatal(err)
		}
		content, _ := os.ReadFile(path)
		return string(content)
	}
	if got := read(Override{}); !strings.Contains(got, "prefix = own\n") || !strings.Contains(got, "config_file = "+shared+"\n") {
		t.Errorf("%s", got)
	}
	if got := read(Override{Prefix: "theirs", OwnYaml: true}); !strings.Contains(got, "prefix = theirs\n") || !strings.Contains(got, "config_file = "+own+"\n") {
		t.Errorf("%s", got)
	}
	if text, err := os.ReadFile(own); err != nil || string(text) != "cluster_name: theirs\n" {
		t.Errorf("%s, %v", text, err)
	}
	// What a try has written into it is gone in the next.
	write(t, own, "initial_token: 1\n", 0o600)
	read(Override{OwnYaml: true})
	if text, _ := os.ReadFile(own); string(text) != "cluster_name: theirs\n" {
		t.Errorf("%s", text)
	}
	if err := os.Remove(shared); err != nil {
		t.Fatal(err)
	}
	if _, err := ConfigureAs(places, private, "", Override{OwnYaml: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestServeOfWhatIsGone: the program is found where its file has been removed while it runs.
func TestServeOfWhatIsGone(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("STATEGRAFT_TEST_GONE") == "" {
		content, err := os.ReadFile(own)
		if err != nil {
			t.Fatal(err)
		}
		command := exec.Command(write(t, filepath.Join(t.TempDir(), "copy"), string(content), 0o755), "-test.run=^"+t.Name()+"$")
		command.Env = append(os.Environ(), "STATEGRAFT_TEST_GONE=1")
		if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	for _, variable := range (Image{Python: "/p"}).Serve("/x/medusa.ini").Env {
		if path, ok := strings.CutPrefix(variable, "STATEGRAFT_AGENT="); ok {
			out, err := exec.Command(path, "-test.list=^"+t.Name()+"$").CombinedOutput()
			if err != nil || !strings.Contains(string(out), t.Name()) {
				t.Errorf("%s: %v\n%s", path, err, out)
			}
			return
		}
	}
	t.Error("it is not told")
}
