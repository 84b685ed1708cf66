package deploy_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// The groups whose Go types this module does not import. Their objects are
// checked for apiVersion, kind and, where they are stored, a name.
var generic = map[string]bool{
	"apiextensions.k8s.io":    true,
	"cert-manager.io":         true,
	"kustomize.config.k8s.io": true,
	"monitoring.coreos.com":   true,
	"stategraft.io":           true, // the API server checks them (TestExamplesOfRestores)
}

var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

type document struct {
	file   string // where it is from, with the number of the document
	object runtime.Object
	text   []byte
}

// decode reads one YAML document into its Go type, refusing unknown and
// duplicate fields.
func decode(doc []byte) (runtime.Object, error) {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &meta); err != nil {
		return nil, err
	}
	if meta.APIVersion == "" || meta.Kind == "" {
		return nil, fmt.Errorf("no apiVersion or no kind")
	}
	gv, err := schema.ParseGroupVersion(meta.APIVersion)
	if err != nil {
		return nil, err
	}
	if generic[gv.Group] {
		u := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(doc, &u.Object); err != nil {
			return nil, err
		}
		if u.GetName() == "" && meta.Kind != "Kustomization" {
			return nil, fmt.Errorf("%s has no name", meta.Kind)
		}
		return u, nil
	}
	obj, _, err := strict.Decode(doc, nil, nil)
	return obj, err
}

// split returns the documents of a file, without those that are comments only.
func split(t *testing.T, data []byte) [][]byte {
	t.Helper()
	var docs [][]byte
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return docs
		}
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := yaml.Unmarshal(doc, &v); err != nil {
			t.Fatal(err)
		}
		if v != nil {
			docs = append(docs, doc)
		}
	}
}

// parse decodes the documents of a file called name.
func parse(t *testing.T, name string, data []byte) []document {
	t.Helper()
	var all []document
	for i, doc := range split(t, data) {
		name := fmt.Sprintf("%s#%d", name, i)
		obj, err := decode(doc)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all = append(all, document{name, obj, doc})
	}
	return all
}

// examples are the documents below examples/.
func examples(t *testing.T) []document {
	t.Helper()
	var all []document
	err := filepath.WalkDir("examples", func(path string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err != nil || d.IsDir() || ext != ".yaml" && ext != ".yml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			all = append(all, parse(t, filepath.ToSlash(path), data)...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// object returns the one object of type T with that name.
func object[T interface {
	runtime.Object
	metav1.Object
}](t *testing.T, docs []document, name string) T {
	t.Helper()
	var found []T
	for _, d := range docs {
		if o, ok := d.object.(T); ok && o.GetName() == name {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects %s of type %T, want 1", len(found), name, *new(T))
	}
	return found[0]
}

// decodesStrictly fails for objects that are there twice, after parse has failed
// for documents that cannot be read.
func decodesStrictly(t *testing.T, docs []document) {
	t.Helper()
	seen := map[string]string{}
	for _, d := range docs {
		o, ok := d.object.(metav1.Object)
		if !ok || o.GetName() == "" {
			continue
		}
		gvk := d.object.GetObjectKind().GroupVersionKind()
		key := fmt.Sprintf("%s %s/%s", gvk.GroupKind(), o.GetNamespace(), o.GetName())
		if other, twice := seen[key]; twice {
			t.Errorf("%s is in %s and in %s", key, other, d.file)
		}
		seen[key] = d.file
	}
}

func TestExamplesDecodeStrictly(t *testing.T) {
	docs := examples(t)
	if len(docs) < 20 {
		t.Errorf("only %d documents: are the files where this test looks?", len(docs))
	}
	decodesStrictly(t, docs)
}

func TestDecodeRefusesWhatIsMisspelt(t *testing.T) {
	for name, doc := range map[string]string{
		"unknown field":   "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, imag: x}]}\n",
		"duplicate field": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nmetadata: {name: q}\n",
		"unknown kind":    "apiVersion: v1\nkind: Pood\nmetadata: {name: p}\n",
		"no kind":         "apiVersion: v1\nmetadata: {name: p}\n",
		"no name":         "apiVersion: cert-manager.io/v1\nkind: Issuer\nspec: {}\n",
	} {
		if _, err := decode([]byte(doc)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestKustomizations(t *testing.T) {
	for _, d := range examples(t) {
		u, ok := d.object.(*unstructured.Unstructured)
		if !ok || u.GetKind() != "Kustomization" {
			continue
		}
		resources, _, err := unstructured.NestedStringSlice(u.Object, "resources")
		if err != nil || len(resources) == 0 {
			t.Errorf("%s: resources: %v, %v", d.file, resources, err)
		}
		for _, r := range resources {
			path := filepath.Join(filepath.Dir(d.file), r)
			info, err := os.Stat(path)
			if err == nil && info.IsDir() {
				_, err = os.Stat(filepath.Join(path, "kustomization.yaml"))
			}
			if err != nil {
				t.Errorf("%s: %v", d.file, err)
			}
		}
	}
}
