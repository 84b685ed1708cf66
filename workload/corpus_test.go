package workload_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/workload"
)

// TestCorpus checks recognition against what has to come out for pods of every
// known origin.
func TestCorpus(t *testing.T) {
	for _, dir := range []string{"../test/corpus", "../test/corpus/extra"} {
		rows := readTruth(t, filepath.Join(dir, "truth.tsv"))
		for _, row := range rows {
			t.Run(row["file"], func(t *testing.T) {
				text, err := os.ReadFile(filepath.Join(dir, "pods", row["file"]+".yaml"))
				if err != nil {
					t.Fatal(err)
				}
				raw, err := yaml.YAMLToJSONStrict(text)
				if err != nil {
					t.Fatal(err)
				}
				pod, err := workload.Parse(raw)
				if err != nil {
					t.Fatal(err)
				}
				d := workload.Recognize(pod, workload.Hints{NamespaceLabelled: true,
					Container:  pod.Metadata.Annotations["stategraft.io/container"],
					DataVolume: pod.Metadata.Annotations["stategraft.io/data-volume"]})
				for column, got := range map[string]string{
					"decision": string(d.Verdict), "reason": string(d.Reason), "kind": string(d.Workload.Kind),
					"container": d.Workload.Container, "dataVolume": d.Workload.Data.Volume,
					"dataPath": d.Workload.Data.Path, "snapshot": string(d.Workload.Snapshot),
				} {
					if got == "" {
						got = "-"
					}
					if got != row[column] {
						t.Errorf("%s: got %s, want %s (message %q, evidence %q)", column, got, row[column], d.Message, d.Workload.Evidence)
					}
				}
			})
		}
	}
}

func readTruth(t *testing.T, name string) []map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var header []string
	var rows []map[string]string
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		fields := strings.Split(scanner.Text(), "\t")
		if header == nil {
			header = fields
			continue
		}
		row := map[string]string{}
		for i, name := range header {
			row[name] = fields[i]
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no rows", name)
	}
	return rows
}
