package restore

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/stategraft/stategraft/api/node"
)

// TestContents: what was counted when the backup was made is left beside it, where that
// is asked for, and never that of another.
func TestContents(t *testing.T) {
	r := newRig(t)
	counts := &node.Contents{Version: 1, Tables: []node.Table{{Table: "shop.orders", SSTables: 2, Bytes: 29, Rows: 1 << 40, Counted: true}}}
	r.report(func(a *Report) { a.Contents = counts })
	r.mustRun()
	r.Backup, r.ContentsFile = "b2", r.path("contents.json")
	r.mustRun()
	var left node.Contents
	if err := json.Unmarshal([]byte(r.get("contents.json")), &left); err != nil || !reflect.DeepEqual(&left, counts) {
		t.Errorf("%v %+v", err, left)
	}
	r.Backup = "b3"
	r.report(func(a *Report) { a.Contents = nil })
	r.mustRun()
	if _, err := os.Stat(r.ContentsFile); !os.IsNotExist(err) {
		t.Errorf("another backup's counts stay: %v", err)
	}
	r.Backup, r.ContentsFile = "b4", r.path("nowhere/contents.json")
	r.report(func(a *Report) { a.Contents = counts })
	if _, err := r.run(); err == nil {
		t.Error("counts that cannot be left are none")
	}
}
