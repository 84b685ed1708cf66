package offline_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/webhook/offline"
)

// Parts of documents.
const (
	podSpec = `volumes: [{name: data, persistentVolumeClaim: {claimName: c}}], containers: [{name: cassandra, image: "cassandra:4.1", ports: [{containerPort: 9042}], volumeMounts: [{name: data, mountPath: /var/lib/cassandra}]}]`
	podYAML = "apiVersion: v1\nkind: Pod\nmetadata: {name: db-0}\nspec: {" + podSpec + "}\n"
	podJSON = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j"},"spec":{"containers":[{"name":"a"}]}}`
	service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"
)

func TestRead(t *testing.T) {
	for _, c := range []struct{ what, text, want string }{ // want: kind, name and number of each document
		{"a pod", podYAML, "Pod db-0 1"},
		{"several", podYAML + "---\n" + service + "---\n" + podYAML, "Pod db-0 1, Service s 2, Pod db-0 3"},
		{"a head and a tail", "---\n" + podYAML + "---\n", "Pod db-0 1"},
		{"comments", "# first\n---\n# second\n" + podYAML + "---\n# last\n", "Pod db-0 1"},
		{"CRLF", strings.ReplaceAll(podYAML+"---\n"+service, "\n", "\r\n"), "Pod db-0 1, Service s 2"},
		{"JSON", podJSON, "Pod j 1"},
		{"a stream of JSON", podJSON + "\n" + podJSON + podJSON, "Pod j 1, Pod j 2, Pod j 3"},
		{"JSON and YAML", podJSON + "\n---\n" + service, "Pod j 1, Service s 2"},
		{"YAML in JSON's style", "{apiVersion: v1, kind: Pod, metadata: {name: f}, spec: {containers: [{name: a}]}}", "Pod f 1"},
		{"a list", "apiVersion: v1\nkind: List\nitems: [" + podJSON + ", " + podJSON + "]\n", "Pod j 1, Pod j 1"},
		{"a list of pods", `{"apiVersion":"v1","kind":"PodList","items":[` + podJSON + `]}`, "Pod j 1"},
		{"generated name", strings.Replace(podJSON, `"name":"j"`, `"generateName":"j-"`, 1), "Pod j- 1"},
		{"line like a separator in a text", strings.Replace(podYAML, "{name: db-0}", "\n  name: db-0\n  annotations:\n    a: |\n      ---\n      x", 1), "Pod db-0 1"},
	} {
		documents, err := offline.Read(strings.NewReader(c.text), "f")
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		var got []string
		for _, d := range documents {
			got = append(got, d.Kind+" "+d.Name+" "+string(rune('0'+d.Index)))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", c.what, text, c.want)
		}
	}
}

// What is wrong is said with its file, its number and its field.
func TestReadErrors(t *testing.T) {
	for _, c := range []struct {
		what, text string
		document   int
		field, say string
	}{
		{"nothing", "", 0, "", "there is no document"},
		{"comments only", "# a\n---\n# b\n", 0, "", "there is no document"},
		{"no YAML", podYAML + "---\na: [", 2, "", "yaml"},
		{"key twice", "kind: Pod\nkind: Pod\n", 1, "", "kind"},
		{"a text", "hello", 1, "", "no object"},
		{"a list of texts", "[a, b]", 1, "", "no object"},
		{"no kind", "apiVersion: v1\nspec: {}\n", 1, "kind", "missing"},
		{"no version", "kind: Pod\nspec: {}\n", 1, "apiVersion", "missing"},
		{"name of a wrong type", "apiVersion: v1\nkind: Pod\nmetadata: {name: 5}\n", 1, "metadata.name", ""},
		{"no containers", podYAML + "---\napiVersion: v1\nkind: Pod\nspec: {}\n", 2, "spec.containers", "at least one"},
		{"no spec", "apiVersion: v1\nkind: Pod\n", 1, "spec.containers", "at least one"},
		{"empty containers", "apiVersion: v1\nkind: Pod\nspec: {containers: []}\n", 1, "spec.containers", "at least one"},
		{"null containers", "apiVersion: v1\nkind: Pod\nspec: {containers: }\n", 1, "spec.containers", "at least one"},
		{"containers in a mapping", "apiVersion: v1\nkind: Pod\nspec: {containers: {a: b}}\n", 1, "spec.containers", "list"},
		{"template without containers", "apiVersion: apps/v1\nkind: StatefulSet\nspec: {template: {spec: {}}}\n", 1, "spec.template.spec.containers", "at least one"},
		{"no template", "apiVersion: apps/v1\nkind: StatefulSet\nspec: {}\n", 1, "spec.template", "no pod template"},
		{"no template, CronJob", "apiVersion: batch/v1\nkind: CronJob\nspec: {}\n", 1, "spec.jobTemplate.spec.template", "no pod template"},
		{"in a list", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, spec: {}}]\n", 1, "spec.containers", "at least one"},
	} {
		_, err := offline.Read(strings.NewReader(c.text), "the-file")
		var input *offline.InputError
		if !errors.As(err, &input) {
			t.Errorf("%s: error %v", c.what, err)
			continue
		}
		if input.File != "the-file" || input.Document != c.document || input.Field != c.field || !strings.Contains(input.Message, c.say) {
			t.Errorf("%s: %+v", c.what, input)
		}
		if !strings.HasPrefix(err.Error(), "the-file: ") {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// Objects that are no workload, also such as have a template of something else,
// are told from broken workloads: --pass-others has to let them pass.
func TestOthers(t *testing.T) {
	for what, text := range map[string]string{
		"Service":           service,
		"SealedSecret":      "apiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\nmetadata: {name: s}\nspec: {encryptedData: {a: b}, template: {metadata: {name: s}}}\n",
		"ExternalSecret":    "apiVersion: external-secrets.io/v1\nkind: ExternalSecret\nmetadata: {name: s}\nspec: {target: {name: s}, template: {data: {a: b}}}\n",
		"template of text":  "apiVersion: example.com/v1\nkind: Mail\nmetadata: {name: s}\nspec: {template: hello}\n",
		"Pod of a stranger": "apiVersion: example.com/v1\nkind: Pod\nmetadata: {name: s}\nspec: {}\n",
	} {
		documents, err := offline.Read(strings.NewReader(text), "f")
		if err != nil || len(documents) != 1 || !documents[0].Other {
			t.Errorf("%s: %v, %+v", what, err, documents)
			continue
		}
		if err := documents[0].NotAWorkload(); !strings.Contains(err.Error(), "f: document 1: field kind") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzRead gives the reader any bytes, and decides on what it reads.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"", "---", podYAML, podJSON, podJSON + podYAML, service, "a: &a [*a]", "{", "[]", "null", "\xff", "%YAML 1.1\n---\n",
		"apiVersion: v1\nkind: List\nitems: [null, 5, {}]\n", `{"kind":"PodList","apiVersion":"v1","items":[{"kind":"List","apiVersion":"v1","items":[]}]}`,
		"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec: {volumeClaimTemplates: 5, serviceName: {}, template: {metadata: null, spec: {" + podSpec + "}}}\n"} {
		f.Add(text, "")
		f.Add(text, "stategraft.io/restore")
	}
	f.Fuzz(func(t *testing.T, text, key string) {
		documents, err := offline.Read(strings.NewReader(text), "f")
		if err != nil {
			var input *offline.InputError
			if !errors.As(err, &input) || input.Message == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		if len(documents) == 0 {
			t.Fatal("no document and no error")
		}
		for _, d := range documents {
			if d.Other {
				continue
			}
			options := defaults()
			if key != "" {
				options.Annotations = map[string]string{key: "b"}
			}
			result, err := offline.Decide(d, options)
			if err != nil {
				continue
			}
			if _, err := result.Apply(); err != nil {
				t.Fatalf("%s: %v", d.JSON, err)
			}
		}
	})
}
