package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/test/cluster"
)

// crdNames are those of all our kinds, sorted.
var crdNames = []string{"backups.stategraft.io", "backupschedules.stategraft.io", "restores.stategraft.io"}

// crdFiles is where controller-gen puts what it makes of api/v1alpha1.
const crdFiles = "chart/files/crds"

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func dynamicClient(t *testing.T, cp *cluster.ControlPlane) dynamic.Interface {
	t.Helper()
	config := cp.Config()
	config.WarningHandler = rest.NoWarnings{}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return dyn
}

// generatedCRD is the file as it was generated.
func generatedCRD(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	plural, group, _ := strings.Cut(name, ".")
	text, err := os.ReadFile(filepath.Join(crdFiles, group+"_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(text, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// crdsAreMade wants what is generated, whole, kept at removal, and before what is
// about its objects: kubectl applies a manifest from above. Or, with crds.install:
// false, none at all.
func crdsAreMade(t *testing.T, docs []document, _ string) {
	at := map[string]int{}
	first := map[string]int{}
	for i, d := range docs {
		kind := d.object.GetObjectKind().GroupVersionKind().Kind
		if kind == "CustomResourceDefinition" {
			at[d.object.(metav1.Object).GetName()] = i
		}
		if _, ok := first[kind]; !ok {
			first[kind] = i
		}
	}
	if len(at) == 0 {
		return
	}
	if got := slices.Sorted(maps.Keys(at)); !slices.Equal(got, crdNames) {
		t.Fatalf("there are %v, want %v", got, crdNames)
	}
	for name, i := range at {
		for _, later := range []string{"ValidatingAdmissionPolicy", "ClusterRole", "Deployment"} {
			if i > first[later] {
				t.Errorf("%s comes after a %s", name, later)
			}
		}
		got, want := docs[i].object.(*unstructured.Unstructured), generatedCRD(t, name)
		if !reflect.DeepEqual(got.Object["spec"], want.Object["spec"]) {
			t.Errorf("%s: the spec is not the generated one", name)
		}
		if got.GetAnnotations()["helm.sh/resource-policy"] != "keep" || got.GetLabels()["app.kubernetes.io/name"] != "stategraft" {
			t.Errorf("%s: annotations %v, labels %v", name, got.GetAnnotations(), got.GetLabels())
		}
		for key, value := range want.GetAnnotations() {
			if got.GetAnnotations()[key] != value {
				t.Errorf("%s: annotation %s is %q, generated was %q", name, key, got.GetAnnotations()[key], value)
			}
		}
	}
}

// Every file is of a kind that the tests know.
func TestEveryCRDIsKnown(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(crdFiles, "*"))
	if err != nil || len(files) != len(crdNames) {
		t.Errorf("%v (%v), want those of %v", files, err, crdNames)
	}
}

// Every rule says what to do, and says it in ASCII: gofmt makes one character of two
// quotes in a comment, and the rules are comments.
func TestRulesHaveMessages(t *testing.T) {
	for _, name := range crdNames {
		rules := validations(generatedCRD(t, name).Object)
		if len(rules) < 20 {
			t.Errorf("%s: only %d rules: are they where this test looks?", name, len(rules))
		}
		for _, rule := range rules {
			if rule["message"] == nil && rule["messageExpression"] == nil {
				t.Errorf("%s: %v has no message", name, rule["rule"])
			}
			if text, _ := rule["rule"].(string); strings.ContainsFunc(text, func(r rune) bool { return r > 0x7e }) {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
}

// validations are the rules in a schema, wherever they are.
func validations(in any) (all []map[string]any) {
	switch v := in.(type) {
	case map[string]any:
		for key, value := range v {
			list, ok := value.([]any)
			if key != "x-kubernetes-validations" || !ok {
				all = append(all, validations(value)...)
				continue
			}
			for _, rule := range list {
				all = append(all, rule.(map[string]any))
			}
		}
	case []any:
		for _, value := range v {
			all = append(all, validations(value)...)
		}
	}
	return all
}

// The value does what it says.
func TestCRDsCanBeLeftOut(t *testing.T) {
	for args, want := range map[string]int{"crds.install=true": len(crdNames), "crds.install=false": 0} {
		var n int
		for _, d := range rendered(t, "--set", args) {
			if d.object.GetObjectKind().GroupVersionKind().Kind == "CustomResourceDefinition" {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d definitions", args, n)
		}
	}
}
