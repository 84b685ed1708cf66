package deploy_test

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

// TestFieldsAreDocumented compares the fields of what people write for backups, and of
// what is written for them to read, with docs/api.md, both ways.
func TestFieldsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	for heading, of := range map[string]reflect.Type{
		"Spec of a Backup": reflect.TypeFor[api.BackupSpec](), "Status of a Backup": reflect.TypeFor[api.BackupStatus](),
		"Spec of a BackupSchedule": reflect.TypeFor[api.BackupScheduleSpec](), "Status of a BackupSchedule": reflect.TypeFor[api.BackupScheduleStatus](),
	} {
		_, part, found := strings.Cut(string(text), "\n### "+heading+"\n")
		if part, _, _ = strings.Cut(part, "\n#"); !found {
			t.Errorf("no section %q", heading)
			continue
		}
		var documented []string
		for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(part, -1) {
			for name := range strings.SplitSeq(row[1], ", ") {
				documented = append(documented, strings.Trim(name, "`"))
			}
		}
		known := fieldsOf(of, "")
		if slices.Sort(known); len(known) < 15 {
			t.Fatalf("only %d fields of %s", len(known), of)
		}
		if slices.Sort(documented); !slices.Equal(known, documented) {
			t.Errorf("%s: in the types %q\nin docs/api.md %q", heading, without(known, documented), without(documented, known))
		}
	}
}

// fieldsOf are the fields of a type in JSON, with those of our types in it. What a
// schedule makes Backups from is told of once, as what a Backup is.
func fieldsOf(of reflect.Type, path string) []string {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() == reflect.Slice {
		return fieldsOf(of.Elem(), path+"[]")
	}
	own := of.Kind() == reflect.Struct && of.PkgPath() == reflect.TypeFor[api.Backup]().PkgPath()
	if !own || path != "" && of == reflect.TypeFor[api.BackupSpec]() {
		return []string{strings.TrimSuffix(path, "[]")}
	}
	var all []string
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		all = append(all, fieldsOf(of.Field(i).Type, strings.TrimPrefix(path+"."+name, "."))...)
	}
	return all
}

// without are those of the first that are not among the second.
func without(all, of []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(of, s) })
}
