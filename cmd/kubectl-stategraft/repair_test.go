package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// TestRepairObjects is about what a repair asks for: a Restore in mode Merge, without a
// question and of the newest backup unless another is named.
func TestRepairObjects(t *testing.T) {
	stamped := regexp.MustCompile(`-\d{8}-\d{6}`)
	for line, want := range map[string]string{
		"statefulset/db": `name: db-STAMP
spec:
  backup: latest
  mode: Merge
  pods:
    names:
    - db-0
    - db-1
`,
		"-l app=db --backup nightly-1 --name mine --deadline 6h": `name: mine
spec:
  backup: nightly-1
  deadline: 6h0m0s
  mode: Merge
  pods:
    selector:
      matchLabels:
        app: db
`,
		"pod/db-1 --source-cluster prod/hydro --backup 2026-11-30T08:00:00Z": `name: db-STAMP
spec:
  backup: "2026-11-30T08:00:00Z"
  mode: Merge
  pods:
    names:
    - db-1
  source:
    cluster: prod/hydro
`,
	} {
		s, kubeconfig := restoringServer(t, completes)
		_, notes, err := run(nil, append(append([]string{"repair"}, strings.Fields(line)...), "-n", "ns", "--kubeconfig", kubeconfig)...)
		if err != nil || len(s.list) != 1 {
			t.Errorf("%s: %d objects, %v: %s", line, len(s.list), err, notes)
			continue
		}
		text, err := yaml.Marshal(map[string]any{"name": stamped.ReplaceAllString(s.list[0].Name, "-STAMP"), "spec": s.list[0].Spec})
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != want {
			t.Errorf("%s:\n%s", line, text)
		}
	}
}

// TestRepairEnds is about its exit status, and that it waits unless it is told not to.
func TestRepairEnds(t *testing.T) {
	refuses := func(r *api.Restore) {
		r.Status.Phase, r.Status.Message = api.RestoreFailed, "pods db-0 and db-1 may be of one cluster of Anna, or of two"
	}
	for name, c := range map[string]struct {
		line    string
		react   func(*api.Restore)
		refused bool   // exit status 1
		says    string // of what is printed
	}{
		"it completes":       {"statefulset/db", completes, false, "so it is"},
		"it fails":           {"statefulset/db", refuses, true, "or of two"},
		"nobody waits":       {"statefulset/db --wait=false", nil, false, ""},
		"a plan":             {"statefulset/db --dry-run", completes, false, "nightly-2"},
		"its name":           {"statefulset/db -o name", completes, false, "restore.stategraft.io/"},
		"nobody waits, name": {"statefulset/db --wait=false -o name", nil, false, "restore.stategraft.io/"},
	} {
		_, kubeconfig := restoringServer(t, c.react)
		out, notes, err := run(nil, append(append([]string{"repair"}, strings.Fields(c.line)...), "-n", "ns", "--kubeconfig", kubeconfig)...)
		said := out + notes
		if err != nil {
			said += err.Error()
		}
		if (err != nil) != c.refused || c.refused != errors.Is(err, errRefused) || !strings.Contains(said, c.says) {
			t.Errorf("%s: %v\n%s\n%s", name, err, out, notes)
		}
	}
}

// A command line that is wrong asks for nothing.
func TestRepairUsage(t *testing.T) {
	for line, want := range map[string]string{
		"":                               "which pods?",
		"db-0":                           "it takes pod/NAME or statefulset/NAME",
		"pod/db-0 -l a=b":                "exclude one another",
		"statefulset/no":                 "there is no statefulset no in namespace ns",
		"statefulset/db --backup=":       "--backup: it takes",
		"statefulset/db --mode in-place": "unknown flag",
		"statefulset/db --yes":           "unknown flag",
		"statefulset/db -o wide":         "--output wide: it takes json, yaml, name",
		"statefulset/db --source-prefix a --source-cluster b/c": "exclude one another",
	} {
		s, kubeconfig := restoringServer(t, nil)
		_, _, err := run(nil, append(append([]string{"repair"}, strings.Fields(line)...), "-n", "ns", "--kubeconfig", kubeconfig)...)
		if err == nil || errors.Is(err, errRefused) || !strings.Contains(err.Error(), want) || len(s.list) > 0 {
			t.Errorf("%s: %v, %d objects", line, err, len(s.list))
		}
	}
}
