package lookup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestParts: a part is discarded by the name that the node has in its backups, while
// everything else is asked by nobody's.
func TestParts(t *testing.T) {
	r := newRig(t)
	called := func(want, node string) {
		t.Helper()
		args, _ := os.ReadFile(filepath.Join(r.dir, "args"))
		env, _ := os.ReadFile(filepath.Join(r.dir, "env"))
		if !strings.HasSuffix(string(args), "answer.json"+want) || !strings.Contains(string(env), "\nPOD_IP="+node+"\n") {
			t.Errorf("asked with %s, want %s; %s", args, want, node)
		}
	}
	r.set("answer", `{"node": "cassandra-0", "name": "b1", "objects": 7}`)
	if d, err := r.Discard(t.Context(), "b1"); err != nil || d.Objects != 7 || d.Node != "cassandra-0" || d.Name != "b1" {
		t.Errorf("%+v, %v", d, err)
	}
	called("|b1|", "cassandra-0")
	r.set("answer", `{"contents": {"version": 1, "tables": [{"table": "a.b", "rows": 9007199254740993, "counted": true}]}}`)
	if c, err := r.Contents(t.Context(), "p", "b1", "c-2"); err != nil || len(c.Tables) != 1 || c.Tables[0].Rows != 9007199254740993 {
		t.Errorf("%+v, %v", c, err)
	}
	called("|p|b1|c-2|", self)
	for answer, want := range map[string]error{`{"kept": "it is complete"}`: ErrKept, `{"error": "refused, s3cret-key"}`: nil} {
		r.set("answer", answer)
		_, err := r.Discard(t.Context(), "b1")
		if err == nil || errors.Is(err, ErrKept) != (want != nil) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", answer, err)
		}
	}
	for answer, want := range map[string]error{`{"contents": null}`: ErrNone, `{"error": "refused, s3cret-key"}`: nil} {
		r.set("answer", answer)
		_, err := r.Contents(t.Context(), "", "b1", "c-2")
		if err == nil || errors.Is(err, ErrNone) != (want != nil) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", answer, err)
		}
	}
	for _, name := range []string{"", "a/b"} {
		if _, err := r.Discard(t.Context(), name); err == nil {
			t.Errorf("%q is discarded", name)
		}
		if _, err := r.Contents(t.Context(), "", "b1", name); err == nil {
			t.Errorf("node %q is looked into", name)
		}
	}
}
