package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMetricsOfAnnaAreDocumented finds each metric that stands in the code beside Anna in
// docs/metrics.md, and each that is there in the code. The code is read, and not
// imported: those metrics are no Prometheus registry's.
func TestMetricsOfAnnaAreDocumented(t *testing.T) {
	name := regexp.MustCompile(`\bstategraft_(?:anna|management)_[a-z_]+[a-z]\b`)
	known := map[string]bool{}
	for _, in := range []string{"serve", "management"} {
		text, err := os.ReadFile(filepath.Join("..", "agent", "anna", in, "metrics.go"))
		if err != nil {
			t.Fatal(err)
		}
		// A name that is made of a list is written as one: stategraft_management_%[1]s.
		for _, kind := range []string{"executors", "schedulers"} {
			for _, found := range name.FindAllString(strings.ReplaceAll(string(text), "%[1]s", kind), -1) {
				known[found] = true
			}
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, found := range name.FindAllString(string(text), -1) {
		documented[found] = true
		if !known[found] {
			t.Errorf("docs/metrics.md has %s, which nothing serves", found)
		}
	}
	for found := range known {
		if !documented[found] {
			t.Errorf("%s is not in docs/metrics.md", found)
		}
	}
	if len(known) < 20 {
		t.Errorf("%d metrics found in the code: are they written otherwise?", len(known))
	}
}
