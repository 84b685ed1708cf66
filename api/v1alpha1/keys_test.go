package v1alpha1

import (
	"os"
	"strings"
	"testing"
)

// TestKeysAreDocumented finds every label and annotation in the README.
func TestKeysAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range append(append([]string{}, Annotations...), Labels...) {
		short := strings.TrimPrefix(key, Group+"/")
		if !strings.Contains(string(text), "`"+short+"`") && !strings.Contains(string(text), key) {
			t.Errorf("%s is not in README.md", key)
		}
	}
}
