package adopt

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stategraft/stategraft/workload"
)

// TestReasonsAreDocumented compares the reasons of adoption's own with docs/adopt.md, both
// ways and in order; those of workload are in docs/reasons.md.
func TestReasonsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/adopt.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []Reason
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|.*\\| (yes|no) \\|$").FindAllStringSubmatch(string(text), -1) {
		reason := Reason(row[1])
		documented = append(documented, reason)
		if wanted := row[2] == "yes"; wanted != reason.Wanted() {
			t.Errorf("%s: documented event %v, code says %v", reason, wanted, reason.Wanted())
		}
	}
	if !slices.Equal(documented, own) {
		t.Errorf("documented %v\ncode has   %v", documented, own)
	}
	if len(Reasons) != len(own)+len(workload.Reasons) {
		t.Errorf("%d reasons in all", len(Reasons))
	}
}
