package ask

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// members are the members of a type in JSON, with those of our types in it.
func members(of reflect.Type, path string) []string {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() == reflect.Slice {
		return members(of.Elem(), path+"[]")
	}
	if of.Kind() != reflect.Struct || of.PkgPath() != reflect.TypeFor[api.Restore]().PkgPath() {
		return []string{strings.TrimSuffix(path, "[]")}
	}
	var all []string
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		all = append(all, members(of.Field(i).Type, strings.TrimPrefix(path+"."+name, "."))...)
	}
	return all
}

// TestFieldsAreDocumented compares the members of the object with docs/api.md, both
// ways.
func TestFieldsAreDocumented(t *testing.T) {
	text := document(t, "api.md")
	_, spec, _ := strings.Cut(text, "### spec")
	spec, status, _ := strings.Cut(spec, "### status")
	for part, of := range map[string]reflect.Type{spec: reflect.TypeFor[api.RestoreSpec](), status: reflect.TypeFor[api.RestoreStatus]()} {
		var documented []string
		for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(part, -1) {
			for _, name := range strings.Split(row[1], ", ") {
				documented = append(documented, strings.Trim(name, "`"))
			}
		}
		known := members(of, "")
		if slices.Sort(known); len(known) < 10 {
			t.Fatalf("only %d members of %s", len(known), of)
		}
		if slices.Sort(documented); !slices.Equal(known, documented) {
			t.Errorf("%s has %q\ndocumented %q", of, known, documented)
		}
	}
}

// TestReasonsAreDocumented finds each reason of a condition in docs/restore.md, and
// each reason there in the code. The code is read and not imported: the command line
// needs none of the controller.
func TestReasonsAreDocumented(t *testing.T) {
	files, err := filepath.Glob("../restore/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^(?:const|\t)\s*Reason\w+\s*=\s*"(\w+)"`).FindAllStringSubmatch(string(text), -1) {
			known = append(known, match[1])
		}
	}
	if len(known) < 20 {
		t.Fatalf("found only %q", known)
	}
	_, text, _ := strings.Cut(document(t, "restore.md"), "## Troubleshooting")
	for _, reason := range known {
		if !strings.Contains(text, "`"+reason+"`") {
			t.Errorf("reason %s is not in docs/restore.md", reason)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| ((?:`\\w+`(?:, )?)+) \\| (?:yes|briefly)? ?\\|").FindAllStringSubmatch(text, -1)
	for _, row := range rows {
		for _, name := range strings.Split(row[1], ", ") {
			if name = strings.Trim(name, "`"); !slices.Contains(known, name) {
				t.Errorf("docs/restore.md has a reason %s that the code has not", name)
			}
		}
	}
	if len(rows) < 20 {
		t.Errorf("only %d rows of reasons", len(rows))
	}
}
