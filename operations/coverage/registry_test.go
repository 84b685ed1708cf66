package coverage_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	_ "github.com/stategraft/stategraft/operations/adopt"
	_ "github.com/stategraft/stategraft/operations/backup"
	_ "github.com/stategraft/stategraft/operations/catalogue"
	_ "github.com/stategraft/stategraft/operations/certificates"
	_ "github.com/stategraft/stategraft/operations/coverage"
	_ "github.com/stategraft/stategraft/operations/cycle"
	_ "github.com/stategraft/stategraft/operations/expose"
	_ "github.com/stategraft/stategraft/operations/heal"
	_ "github.com/stategraft/stategraft/operations/removal"
	_ "github.com/stategraft/stategraft/operations/restore"
	_ "github.com/stategraft/stategraft/operations/rpo"
	_ "github.com/stategraft/stategraft/operations/scheduler"
	_ "github.com/stategraft/stategraft/operations/verify"
	"github.com/stategraft/stategraft/test/golden"
	_ "github.com/stategraft/stategraft/webhook"
)

// described reads a description as the library writes it. It has no accessors.
var described = regexp.MustCompile(`fqName: "([^"]*)".*constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}`)

// also are metrics of libraries that the dashboard or an alert asks for.
var also = []string{"process_resident_memory_bytes"}

// ofMain finds the metrics that the program itself registers, which no test can
// import. They have no labels.
func ofMain(t *testing.T) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "cmd", "stategraft", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`NewGauge\(prometheus\.GaugeOpts\{\s*Name:\s+"(stategraft_[a-z_]+)"`).FindAllStringSubmatch(string(text), -1) {
			lines = append(lines, match[1]+"{}")
		}
	}
	return lines
}

// TestMetricNames writes down every metric of the program with its labels, for the
// tests of alerts and dashboard (test/alerts, which is another module), and finds
// each in docs/metrics.md.
func TestMetricNames(t *testing.T) {
	all, ok := metrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatalf("the registry is a %T, which does not describe its metrics", metrics.Registry)
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		all.Describe(descriptions)
	}()
	var lines []string
	for d := range descriptions {
		match := described.FindStringSubmatch(d.String())
		if match == nil {
			t.Fatalf("%s is not described as it used to be", d)
		}
		if name := match[1]; strings.HasPrefix(name, "stategraft_") || slices.Contains(also, name) {
			lines = append(lines, name+"{"+match[2]+"}")
		}
	}
	lines = append(lines, ofMain(t)...)
	slices.Sort(lines)
	if len(lines) < 10 {
		t.Errorf("only %q", lines)
	}
	const head = "# Written by go test ./operations/coverage -update; metrics with their labels.\n"
	text, path := head+strings.Join(lines, "\n")+"\n", filepath.Join("..", "..", "test", "alerts", "testdata", "metrics.txt")
	if *golden.Update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("metrics are\n%s\n%s has\n%s", text, path, want)
	}
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	// What Anna's sidecars serve is no registry's; a test of deploy compares that.
	ours, rest, _ := strings.Cut(string(document), "\n## Of Anna's sidecars\n")
	_, rest, _ = strings.Cut(rest, "\n## ")
	rows := map[string]bool{}
	for _, match := range regexp.MustCompile("(?m)^\\| `(stategraft_[a-z_]+)(?:\\{([a-z, ]*)\\})?` \\|").FindAllStringSubmatch(ours+rest, -1) {
		rows[match[1]+"{"+strings.ReplaceAll(match[2], " ", "")+"}"] = true
	}
	for _, line := range lines {
		if strings.HasPrefix(line, "stategraft_") && !rows[line] {
			t.Errorf("docs/metrics.md has no row of %s", line)
		}
		delete(rows, line)
	}
	for row := range rows {
		t.Errorf("docs/metrics.md has %s, which is no metric", row)
	}
}
