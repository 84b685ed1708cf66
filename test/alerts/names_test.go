package alerts

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// targetLabels are put on every series by whoever scrapes it. Prometheus itself
// makes instance and job; the operator's monitors add the others.
var targetLabels = []string{"instance", "job", "namespace", "pod"}

// metrics are the names of what there is to ask for, with the labels. What is ours
// is written down by a test of operations/coverage, from the registry of the
// program.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	known := map[string][]string{}
	for _, file := range []string{"testdata/metrics.txt", "testdata/apiserver.txt"} {
		for line := range strings.Lines(read(t, file)) {
			if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			name, list, ok := strings.Cut(strings.TrimSuffix(line, "}"), "{")
			if !ok {
				t.Fatalf("%s: %q is no name{labels}", file, line)
			}
			known[name] = strings.Split(list, ",")
		}
	}
	return known
}

// checkNames reports what an expression asks for that does not exist: a metric, or
// a label of one.
func checkNames(t *testing.T, where, expr string, known map[string][]string) (used []string) {
	t.Helper()
	parsed, err := promQL.ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %s: %v", where, expr, err)
		return nil
	}
	check := func(name string, has []string, label string) {
		if label != model.MetricNameLabel && label != "le" && !slices.Contains(has, label) && !slices.Contains(targetLabels, label) {
			t.Errorf("%s: %s has no label %s", where, name, label)
		}
	}
	var all []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			name, has, ok := find(s.Name, known)
			if !ok {
				t.Errorf("%s: no metric is called %s", where, s.Name)
				return nil
			}
			used, all = append(used, name), append(all, has...)
			for _, m := range s.LabelMatchers {
				check(name, has, m.Name)
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.AggregateExpr:
			for _, label := range n.Grouping {
				check("what is grouped", all, label)
			}
		case *parser.BinaryExpr:
			if n.VectorMatching != nil { // nil beside a number
				for _, label := range n.VectorMatching.MatchingLabels {
					check("what is matched", all, label)
				}
			}
		}
		return nil
	})
	return used
}

var parts = regexp.MustCompile(`_(bucket|sum|count)$`)

// find also knows the parts of a histogram.
func find(name string, known map[string][]string) (string, []string, bool) {
	for _, candidate := range []string{name, parts.ReplaceAllString(name, "")} {
		if has, ok := known[candidate]; ok {
			return candidate, has, true
		}
	}
	return name, nil, false
}

func TestNamesOfRules(t *testing.T) {
	known := metrics(t)
	for _, rule := range rules(t, ruleFiles(t)...) {
		if used := checkNames(t, rule.Alert, rule.Expr, known); len(used) == 0 {
			t.Errorf("%s is about no metric", rule.Alert)
		}
	}
}
