package alerts

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// chart is where the rules and the dashboard are.
var chart = filepath.Join("..", "..", "deploy", "chart")

var promQL = parser.NewParser(parser.Options{})

// rules reads files of rules as Prometheus does, which checks their expressions
// and the templates of their annotations.
func rules(t *testing.T, files ...string) (all []rulefmt.Rule) {
	t.Helper()
	for _, file := range files {
		groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
		if len(errs) > 0 {
			t.Fatal(errors.Join(errs...))
		}
		for _, group := range groups.Groups {
			all = append(all, group.Rules...)
		}
	}
	return all
}

// ruleFiles are those of the chart.
func ruleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(chart, "alerts", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no rules in %s (%v)", chart, err)
	}
	return files
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
