package workload_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stategraft/stategraft/workload"
)

// TestReasonsAreDocumented compares the closed set with docs/reasons.md, both
// ways and in order.
func TestReasonsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []workload.Reason
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|.*\\| (yes|no) \\|$").FindAllStringSubmatch(string(text), -1) {
		reason := workload.Reason(row[1])
		documented = append(documented, reason)
		if wanted := row[2] == "yes"; wanted != reason.Wanted() {
			t.Errorf("%s: documented event %v, code says %v", reason, wanted, reason.Wanted())
		}
	}
	if !slices.Equal(documented, workload.Reasons) {
		t.Errorf("documented %v\ncode has   %v", documented, workload.Reasons)
	}
}
