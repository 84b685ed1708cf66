package scenario

import (
	"os/exec"
	"strings"
	"testing"
)

// A test that fails, one that is skipped, one that never ran and a run that ends
// badly are never taken for held.
func TestResults(t *testing.T) {
	items := []Item{{Name: "good", Test: "TestGood"}, {Name: "bad", Test: "TestBad"}, {Name: "skipped", Test: "TestSkipped"}, {Name: "missing", Test: "TestMissing"}}
	const events = `{"Action":"output","Test":"TestGood","Output":"    x_test.go:1: figure: 42 pods\n"}
{"Action":"pass","Test":"TestGood/sub"}
{"Action":"pass","Test":"TestGood","Elapsed":1.2}
not JSON
{"Action":"output","Test":"TestBad/sub","Output":"broken\n"}
{"Action":"fail","Test":"TestBad"}
{"Action":"skip","Test":"TestSkipped"}
`
	r := newResults(items, false)
	cmd := exec.Command("sh", "-c", "cat; exit 1")
	cmd.Stdin = strings.NewReader(events)
	if err := r.follow(cmd); err == nil {
		t.Error("a run that ends with status 1 is no error")
	}
	if held := r.summary(); held != 1 {
		t.Errorf("%d hold, want 1: %v", held, r.done)
	}
	if got := r.figures("TestGood"); len(got) != 1 || got[0] != "42 pods" {
		t.Errorf("figures %q", got)
	}
	if !strings.Contains(r.text("TestBad"), "broken") {
		t.Errorf("the output of a subtest is not kept: %q", r.text("TestBad"))
	}
}
