package medusa

import (
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/stategraft/stategraft/api/node"
)

func TestFailed(t *testing.T) {
	dir := t.TempDir()
	if got := Failed(dir); got != nil {
		t.Errorf("before there is anything: %+v", got)
	}
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string][]node.Failed{
		"{}": nil, "": nil, "oops": nil, `{"name": 7}`: nil,
		`{"name": "b1", "at": "2026-11-30T10:00:00Z", "why": "OSError: no room"}`: {{Name: "b1", At: at, Why: "OSError: no room"}},
	} {
		if err := os.WriteFile(FailedFile(dir), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Failed(dir); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}
