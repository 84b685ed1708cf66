package process

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "anna-config.yml")
	const text = `
a: {plain: NULL, quoted: "NULL", tilde: ~, empty: , number: 4, list: [x, y], flag: true}
twice: {is: first}
twice: {is: last}
`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	anna, err := load(file, false)
	if err != nil {
		t.Fatal(err)
	}
	python, err := load(file, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := anna.at("twice").at("is").text(); got != "first" {
		t.Errorf("of duplicates Anna reads the %s", got)
	}
	if got := python.at("twice").at("is").text(); got != "last" {
		t.Errorf("of duplicates Python reads the %s", got)
	}
	a := anna.at("a")
	if a.at("quoted").text() != "NULL" || a.at("number").number() != 4 || len(a.at("list").texts()) != 2 || !a.at("flag").truth() {
		t.Error("a value is not what it is")
	}
	for _, bad := range []conf{a.at("plain"), a.at("tilde"), a.at("empty"), a.at("missing"), anna.at("none").at("none"), a} {
		func() {
			defer func() {
				if why, ok := recover().(aborted); !ok {
					t.Errorf("%s: %v", bad.path, why)
				}
			}()
			bad.text()
		}()
	}
	if _, err := load(file+".none", false); !errors.As(err, new(aborted)) {
		t.Errorf("a missing file: %v", err)
	}
}
