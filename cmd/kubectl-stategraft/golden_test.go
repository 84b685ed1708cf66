package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	goldenfile "github.com/stategraft/stategraft/test/golden"
	"github.com/stategraft/stategraft/webhook/offline"
	"github.com/stategraft/stategraft/workload"
)

var update = goldenfile.Update

const corpusDir = "../../test/corpus"

// golden is a golden file: the decision as explain prints it, and the patch.
type golden struct {
	Explain offline.Explanation `json:"explain"`
	Patch   json.RawMessage     `json:"patch"`
}

// TestGolden decides on every pod of the corpus on both ways, with the command
// and through the webhook, and compares with what was right before. After a
// change that is meant, go test ./cmd/kubectl-stategraft -update writes the
// files anew, and their difference is to be read.
func TestGolden(t *testing.T) {
	truth := readTruth(t)
	pods := corpusPods(t)
	written := map[string]bool{}
	base := map[string]decided{}
	for _, v := range variants {
		for name, raw := range pods {
			if !v.wants(name, base) {
				continue
			}
			file := name + ".json"
			if v.name != "" {
				file = name + "." + v.name + ".json"
			}
			written[file] = true
			t.Run(strings.TrimSuffix(file, ".json"), func(t *testing.T) {
				raw := annotate(t, raw, v.annotations)
				order := orderFor(t, v.order, raw)
				got := byCommand(t, raw, v.config, order)
				if v.name == "" {
					base[name] = decided{got.Explain.Decision, got.Explain.Workload.Kind, got.Explain.Workload.Role}
					matchesTruth(t, got.Explain, truth[name])
				}
				byWebhook(t, raw, v.config, order, got)
				compare(t, filepath.Join(corpusDir, "golden", file), got)
			})
		}
	}
	for name := range truth {
		if pods[name] == nil {
			t.Errorf("truth.tsv has a row for %s, and there is no such pod", name)
		}
	}
	if !strings.Contains(flag.Lookup("test.run").Value.String(), "/") { // all of the files were looked at
		stale(t, written)
	}
}

// orderFor is the Restore with the pod's name, pending.
func orderFor(t *testing.T, restore *api.Restore, raw []byte) *api.Restore {
	t.Helper()
	if restore == nil {
		return nil
	}
	pod, err := workload.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	restore = restore.DeepCopy()
	restore.Status.Pods[0].Name = pod.Metadata.Name
	if restore.Status.Pods[0].Node == "" && restore.Status.Pods[0].Action == api.ActionRestore {
		restore.Status.Pods[0].Node = pod.Metadata.Name
	}
	restore.Status.Pending = []string{pod.Metadata.Name}
	return restore
}

func (v variant) wants(name string, base map[string]decided) bool {
	if v.each != nil {
		return v.each(base[name])
	}
	for _, pod := range v.pods {
		if pod == name {
			return true
		}
	}
	return len(v.pods) == 0
}

func compare(t *testing.T, file string, got golden) {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(got); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; with -update it is written", err)
	}
	if bytes.Equal(want, text.Bytes()) {
		return
	}
	wanted, have := strings.Split(string(want), "\n"), strings.Split(text.String(), "\n")
	for i := range have {
		if i >= len(wanted) || wanted[i] != have[i] {
			line := "the end"
			if i < len(wanted) {
				line = wanted[i]
			}
			t.Fatalf("%s:%d:\n got %s\nwant %s\n(-update rewrites the file)", file, i+1, have[i], line)
		}
	}
	t.Fatalf("%s has more lines than came out", file)
}

// stale finds golden files that no pod and variant has any more.
func stale(t *testing.T, written map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(corpusDir, "golden", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if written[filepath.Base(file)] {
			continue
		}
		if !*update {
			t.Errorf("%s belongs to no pod; with -update it is deleted", file)
		} else if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	}
}

// byCommand runs explain and inject on the pod.
func byCommand(t *testing.T, raw []byte, config string, order *api.Restore) golden {
	t.Helper()
	var args []string
	write := func(name string, text []byte) {
		file := filepath.Join(t.TempDir(), name+".yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--"+name, file)
	}
	if config != "" {
		write("config", []byte(config))
	}
	if order != nil {
		text, err := yaml.Marshal(order)
		if err != nil {
			t.Fatal(err)
		}
		write("restore", text)
	}
	explained, _, err := run(raw, append([]string{"explain", "-f", "-", "-o", "json"}, args...)...)
	var got golden
	if e := json.Unmarshal([]byte(explained), &got.Explain); e != nil {
		t.Fatalf("explain gave %q: %v", explained, e)
	}
	if refused := got.Explain.Decision == workload.Refuse; refused != (err != nil) || err != nil && err != errRefused {
		t.Fatalf("explain: %s, error %v", got.Explain.Decision, err)
	}
	patch, _, err := run(raw, append([]string{"inject", "-f", "-", "-o", "patch"}, args...)...)
	if err != nil && err != errRefused {
		t.Fatal(err)
	}
	if patch == "" {
		patch = "null" // refused: nothing is printed
	}
	got.Patch = json.RawMessage(strings.TrimSpace(patch))
	return got
}

// run runs the command in this process.
func run(in []byte, args ...string) (out, notes string, err error) {
	command := root()
	var stdout, stderr bytes.Buffer
	command.SetIn(bytes.NewReader(in))
	command.SetOut(&stdout)
	command.SetErr(&stderr)
	command.SetArgs(args)
	err = command.Execute()
	return stdout.String(), stderr.String(), err
}

func matchesTruth(t *testing.T, e offline.Explanation, row map[string]string) {
	t.Helper()
	if row == nil {
		t.Fatal("there is no row in truth.tsv")
	}
	got := map[string]string{"decision": string(e.Decision), "reason": string(e.Reason), "kind": string(e.Workload.Kind),
		"container": e.Workload.Container, "dataVolume": e.Workload.DataVolume, "dataPath": e.Workload.DataPath, "snapshot": string(e.Workload.Snapshot)}
	for column, value := range got {
		if value == "" {
			got[column] = "-"
		}
	}
	delete(row, "file")
	if !reflect.DeepEqual(got, row) {
		t.Errorf("got %v, truth is %v", got, row)
	}
}

// readTruth reads what has to come out for each pod, by its name.
func readTruth(t *testing.T) map[string]map[string]string {
	t.Helper()
	rows := map[string]map[string]string{}
	for _, dir := range []string{".", "extra"} {
		text, err := os.ReadFile(filepath.Join(corpusDir, dir, "truth.tsv"))
		if err != nil {
			t.Fatal(err)
		}
		scanner := bufio.NewScanner(bytes.NewReader(text))
		scanner.Scan()
		header := strings.Split(scanner.Text(), "\t")
		for scanner.Scan() {
			row := map[string]string{}
			for i, value := range strings.Split(scanner.Text(), "\t") {
				row[header[i]] = value
			}
			rows[row["file"]] = row
		}
	}
	return rows
}

func corpusPods(t *testing.T) map[string][]byte {
	t.Helper()
	pods := map[string][]byte{}
	for _, dir := range []string{"pods", "extra/pods"} {
		files, _ := filepath.Glob(filepath.Join(corpusDir, dir, "*.yaml"))
		if len(files) == 0 {
			t.Fatalf("no pods in %s", dir)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := yaml.YAMLToJSONStrict(text)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			pods[strings.TrimSuffix(filepath.Base(file), ".yaml")] = raw
		}
	}
	return pods
}
