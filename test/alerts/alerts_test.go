package alerts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const runbook = "https://github.com/stategraft/stategraft/blob/main/docs/alerts.md#"

// TestAlerts says what every alert has to say: how bad it is, what it is about,
// where to read on.
func TestAlerts(t *testing.T) {
	documented := headings(t)
	severities := map[string]bool{"critical": true, "warning": true, "info": true}
	seen := map[string]bool{}
	for _, rule := range rules(t, ruleFiles(t)...) {
		seen[rule.Alert] = true
		if !strings.HasPrefix(rule.Alert, "Stategraft") {
			t.Errorf("alert %q does not begin with Stategraft", rule.Alert)
		}
		if !severities[rule.Labels["severity"]] {
			t.Errorf("%s: severity %q", rule.Alert, rule.Labels["severity"])
		}
		for _, key := range []string{"summary", "description"} {
			if text := rule.Annotations[key]; text == "" || strings.ContainsAny(text, "\n") || !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %s is %q", rule.Alert, key, text)
			}
		}
		if got, want := rule.Annotations["runbook_url"], runbook+strings.ToLower(rule.Alert); got != want {
			t.Errorf("%s: runbook_url %q, want %q", rule.Alert, got, want)
		}
		if !documented[rule.Alert] {
			t.Errorf("%s has no section in docs/alerts.md", rule.Alert)
		}
	}
	for heading := range documented {
		if !seen[heading] {
			t.Errorf("docs/alerts.md has a section on %s, which is no alert", heading)
		}
	}
}

// headings are the sections of docs/alerts.md that are named like alerts. GitHub
// makes their anchors of the heading in lower case.
func headings(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^#+ (Stategraft[A-Za-z]+)$`).FindAllStringSubmatch(read(t, filepath.Join("..", "..", "docs", "alerts.md")), -1) {
		found[match[1]] = true
	}
	return found
}

// TestScenarios runs the files of testdata, which are in the format of promtool
// test rules: series go in, and at a time certain alerts fire, with their labels
// and annotations, and no others of the name.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*_test.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios (%v)", err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, path := range files {
		file := readScenarios(t, path)
		all := rules(t, file.ruleFiles(t, path)...)
		for _, s := range file.Tests {
			t.Run(strings.TrimSuffix(filepath.Base(path), "_test.yaml")+"/"+s.Name, func(t *testing.T) {
				for _, c := range s.Alerts {
					got := s.firing(t, file, all, c.Alert, c.At.duration())
					want := c.expected()
					if text, expect := describe(got), describe(want); text != expect {
						t.Errorf("%s after %s:\n%s\nwant:\n%s", c.Alert, c.At, text, expect)
					}
					for _, a := range want {
						fires[c.Alert+" "+a.labels["severity"]] = true
					}
					if len(want) == 0 {
						quiet[c.Alert] = true
					}
				}
			})
		}
	}
	for _, rule := range rules(t, ruleFiles(t)...) {
		if !fires[rule.Alert+" "+rule.Labels["severity"]] {
			t.Errorf("no scenario has %s fire with severity %s", rule.Alert, rule.Labels["severity"])
		}
		if !quiet[rule.Alert] {
			t.Errorf("no scenario has %s stay quiet", rule.Alert)
		}
	}
}

// promtoolEnv is the environment variable that names a promtool to run the same
// scenarios with.
const promtoolEnv = "STATEGRAFT_PROMTOOL"

// TestPromtool has Prometheus' own tool come to the same results.
func TestPromtool(t *testing.T) {
	program := os.Getenv(promtoolEnv)
	if program == "" {
		t.Skipf("needs promtool: name it in %s", promtoolEnv)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{append([]string{"test", "rules"}, files...), append([]string{"check", "rules"}, ruleFiles(t)...)} {
		if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", args[0], err, out)
		}
	}
}
