package rigged

import (
	"os"
	"path/filepath"
	"testing"
)

// The files of a mounted Secret change together, and not before both are there.
func TestMount(t *testing.T) {
	dir := t.TempDir()
	m := &mount{dir: dir}
	for _, step := range []struct {
		crt, key string // in the Secret
		want     string // in the files; empty for none
	}{
		{"", "", ""},
		{"a", "", ""},
		{"a", "A", "aA"},
		{"a", "A", "aA"},
		{"b", "B", "bB"},
		{"", "", "bB"},
	} {
		if err := m.write(map[string][]byte{"tls.crt": []byte(step.crt), "tls.key": []byte(step.key)}); err != nil {
			t.Fatal(err)
		}
		var got string
		for _, name := range []string{"tls.crt", "tls.key"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			got += string(text)
		}
		if got != step.want {
			t.Errorf("after %q, %q: the files are %q, want %q", step.crt, step.key, got, step.want)
		}
	}
	if m.generation != 2 {
		t.Errorf("written %d times", m.generation)
	}
}
