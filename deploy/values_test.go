package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
)

// schemaNode is the part of a JSON schema that is looked at here.
type schemaNode struct {
	Ref                  string                `json:"$ref"`
	Type                 any                   `json:"type"`
	Properties           map[string]schemaNode `json:"properties"`
	AdditionalProperties any                   `json:"additionalProperties"`
	Definitions          map[string]schemaNode `json:"definitions"`
	Enum                 []any                 `json:"enum"`
}

func readSchema(t *testing.T) schemaNode {
	t.Helper()
	var root schemaNode
	text, err := os.ReadFile("chart/values.schema.json")
	if err == nil {
		err = json.Unmarshal(text, &root)
	}
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// leaves are the values that the schema knows, by path. What it describes by a
// reference is one value, as a whole.
func leaves(t *testing.T, node schemaNode, path string) []string {
	if len(node.Properties) == 0 {
		return []string{path}
	}
	if node.AdditionalProperties != false {
		t.Errorf("schema: %s takes anything", path)
	}
	var all []string
	for name, child := range node.Properties {
		all = append(all, leaves(t, child, strings.TrimPrefix(path+"."+name, "."))...)
	}
	return all
}

// The schema, values.yaml and the table of the README know the same values, and
// the last two the same defaults.
func TestEveryValueIsDocumented(t *testing.T) {
	known := slices.DeleteFunc(leaves(t, readSchema(t), ""), func(path string) bool { return path == "global" })
	var values map[string]any
	text, err := os.ReadFile("chart/values.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(text, &values)
	}
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	flatten(t, values, "", known, defaults)
	readme, err := os.ReadFile("chart/README.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z.]+)` \\| `(.*?)` \\| (.*) ?\\|$").FindAllStringSubmatch(string(readme), -1) {
		table[row[1]] = row[2]
	}
	if len(known) < 40 || len(table) < 40 {
		t.Errorf("%d values in the schema, %d in the table: are they where this test looks?", len(known), len(table))
	}
	for _, path := range known {
		if _, there := defaults[path]; !there {
			t.Errorf("values.yaml lacks %s", path)
		}
		if got, there := table[path]; !there {
			t.Errorf("README.md lacks %s", path)
		} else if got != defaults[path] {
			t.Errorf("README.md says %s is %s, values.yaml %s", path, got, defaults[path])
		}
	}
	for path := range table {
		if !slices.Contains(known, path) {
			t.Errorf("README.md has %s, which is no value", path)
		}
	}
	valuesAreUsed(t, known)
}

// flatten finds the known values, as JSON. Others are errors.
func flatten(t *testing.T, values map[string]any, path string, known []string, into map[string]string) {
	for name, value := range values {
		path := strings.TrimPrefix(path+"."+name, ".")
		if slices.Contains(known, path) {
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			into[path] = string(text)
			continue
		}
		inner, ok := value.(map[string]any)
		if !ok {
			t.Errorf("the schema lacks %s", path)
			continue
		}
		flatten(t, inner, path, known, into)
	}
}

// valuesAreUsed looks for each value in the templates, by its last name.
func valuesAreUsed(t *testing.T, known []string) {
	var all strings.Builder
	err := filepath.WalkDir("chart/templates", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range known {
		name := path[strings.LastIndex(path, ".")+1:]
		if !regexp.MustCompile(`\.` + name + `\b`).MatchString(all.String()) {
			t.Errorf("no template uses %s", path)
		}
	}
}

// The value config is the webhook's own file, so the schema has to know the same
// fields and annotations.
func TestSchemaOfConfig(t *testing.T) {
	config := readSchema(t).Definitions["config"]
	want := fields(reflect.TypeFor[webhook.Config]())
	delete(want, "apiVersion") // added by the chart
	delete(want, "kind")
	compare(t, "config", config, want)

	var annotations []string
	for _, a := range api.Annotations {
		name := strings.TrimPrefix(a, api.Group+"/")
		_, err := webhook.ParseConfig(fmt.Appendf(nil, "apiVersion: %s\nkind: %s\nannotations: {%s: x}\n", webhook.ConfigVersion, webhook.ConfigKind, name))
		// Of some a default for all pods makes no sense.
		if err == nil || !strings.Contains(err.Error(), "cannot be a default") {
			annotations = append(annotations, name)
		}
	}
	slices.Sort(annotations)
	if got := slices.Sorted(maps.Keys(config.Properties["annotations"].Properties)); !slices.Equal(got, annotations) {
		t.Errorf("values.schema.json: config.annotations takes %v, the webhook %v", got, annotations)
	}
}

// fields are those of a structure in JSON, with those inside of structures of
// this module; nil for one that is looked at no further.
func fields(of reflect.Type) map[string]any {
	all := map[string]any{}
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "-" {
			continue
		}
		all[name] = nil
		if field.Type.Kind() == reflect.Struct {
			all[name] = fields(field.Type)
		}
	}
	return all
}

func compare(t *testing.T, path string, node schemaNode, want map[string]any) {
	t.Helper()
	for name := range node.Properties {
		if _, there := want[name]; !there {
			t.Errorf("the schema has %s.%s, which the webhook does not", path, name)
		}
	}
	for name, inner := range want {
		child, there := node.Properties[name]
		if !there {
			t.Errorf("the webhook has %s.%s: add it to config in values.schema.json", path, name)
			continue
		}
		if inner, ok := inner.(map[string]any); ok {
			compare(t, path+"."+name, child, inner)
		}
	}
}
