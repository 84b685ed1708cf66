// Package golden holds the flag with which tests rewrite their golden files, and
// compares with one. A test package without any imports it too, so that
// go test ./... -update works.
package golden

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

// Update is set by -update.
var Update = flag.Bool("update", false, "rewrite the golden files")

// Compare compares with a golden file, or with -update writes it.
func Compare(t *testing.T, path string, got []byte) {
	t.Helper()
	if *Update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; with -update it is written", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}
