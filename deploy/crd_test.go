package deploy_test

import (
	"os"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/test/cluster"
)

const (
	crdName = "restores.stategraft.io"
	// crdFile is what controller-gen makes of api/v1alpha1.
	crdFile = "chart/files/crds/stategraft.io_restores.yaml"
)

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
func generatedCRD(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(crdFile)
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
// about its objects: kubectl applies a manifest from above.
func crdsAreMade(t *testing.T, docs []document, _ string) {
	index := func(kind, name string) int {
		return slices.IndexFunc(docs, func(d document) bool {
			return d.object.GetObjectKind().GroupVersionKind().Kind == kind && (name == "" || d.object.(metav1.Object).GetName() == name)
		})
	}
	at := index("CustomResourceDefinition", crdName)
	if at < 0 {
		// crds.install: false. Then there is none at all.
		if index("CustomResourceDefinition", "") >= 0 {
			t.Error("another CustomResourceDefinition")
		}
		return
	}
	for _, later := range []string{"ValidatingAdmissionPolicy", "ClusterRole", "Deployment"} {
		if at > index(later, "") {
			t.Errorf("comes after a %s", later)
		}
	}
	got, want := docs[at].object.(*unstructured.Unstructured), generatedCRD(t)
	if !reflect.DeepEqual(got.Object["spec"], want.Object["spec"]) {
		t.Error("the spec is not the generated one")
	}
	if got.GetAnnotations()["helm.sh/resource-policy"] != "keep" || got.GetLabels()["app.kubernetes.io/name"] != "stategraft" {
		t.Errorf("annotations %v, labels %v", got.GetAnnotations(), got.GetLabels())
	}
	for key, value := range want.GetAnnotations() {
		if got.GetAnnotations()[key] != value {
			t.Errorf("annotation %s is %q, generated was %q", key, got.GetAnnotations()[key], value)
		}
	}
}

// Every rule says what to do.
func TestRulesHaveMessages(t *testing.T) {
	rules := validations(generatedCRD(t).Object)
	if len(rules) < 20 {
		t.Errorf("only %d rules: are they where this test looks?", len(rules))
	}
	for _, rule := range rules {
		if rule["message"] == nil && rule["messageExpression"] == nil {
			t.Errorf("%v has no message", rule["rule"])
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
	for args, want := range map[string]int{"crds.install=true": 1, "crds.install=false": 0} {
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
