package alerts

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// scenarios is a file of promtool test rules
// (https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules):
// what of the format is used here, and an error for the rest.
type scenarios struct {
	RuleFiles []string   `yaml:"rule_files"`
	Interval  duration   `yaml:"evaluation_interval"`
	Tests     []scenario `yaml:"tests"`
}

type scenario struct {
	Name     string   `yaml:"name"`
	Interval duration `yaml:"interval"`
	Series   []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Alerts []expectation `yaml:"alert_rule_test"`
}

type expectation struct {
	Alert    string   `yaml:"alertname"`
	At       duration `yaml:"eval_time"`
	Expected []struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	} `yaml:"exp_alerts"`
}

// duration is one as Prometheus writes it, such as 1d12h.
type duration string

func (d duration) duration() time.Duration {
	parsed, err := model.ParseDuration(string(d))
	if err != nil {
		panic(err) // checked when the file was read
	}
	return time.Duration(parsed)
}

func readScenarios(t *testing.T, path string) (file scenarios) {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader([]byte(read(t, path))))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for i := range file.Tests {
		s := &file.Tests[i]
		if s.Interval == "" {
			s.Interval = file.Interval
		}
		durations := []duration{file.Interval, s.Interval}
		for _, c := range s.Alerts {
			durations = append(durations, c.At)
		}
		for _, d := range durations {
			if parsed, err := model.ParseDuration(string(d)); err != nil || parsed == 0 && d != "0m" {
				t.Fatalf("%s: %s: duration %q", path, s.Name, d)
			}
		}
	}
	return file
}

// ruleFiles are the files that the scenarios are about, from the folder that theirs
// is in.
func (f scenarios) ruleFiles(t *testing.T, path string) (files []string) {
	t.Helper()
	for _, pattern := range f.RuleFiles {
		found, err := filepath.Glob(filepath.Join(filepath.Dir(path), pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no rules in %s (%v)", path, pattern, err)
		}
		files = append(files, found...)
	}
	return files
}

// alert is one that fires.
type alert struct{ labels, annotations map[string]string }

func (e expectation) expected() (alerts []alert) {
	for _, a := range e.Expected {
		labels := maps.Clone(a.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		alerts = append(alerts, alert{labels, a.Annotations})
	}
	return alerts
}

// describe writes alerts in a way that can be compared.
func describe(alerts []alert) string {
	var lines []string
	for _, a := range alerts {
		var b strings.Builder
		for _, part := range []map[string]string{a.labels, a.annotations} {
			for _, key := range slices.Sorted(maps.Keys(part)) {
				fmt.Fprintf(&b, "  %s: %s\n", key, part[key])
			}
		}
		lines = append(lines, b.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
