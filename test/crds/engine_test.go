package crds

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

const folder = "../../deploy/chart/files/crds"

// definition is a CustomResourceDefinition as the API server has it.
type definition struct {
	kind       string
	structural *structuralschema.Structural
	rules      *cel.Validator
	schema     schemavalidation.SchemaValidator
}

// internal is the file as the API server sees it when it is applied.
func internal(t *testing.T, file string) *apiextensions.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		t.Fatal(err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	crd.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
	out := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

func load(t *testing.T, plural string) *definition {
	t.Helper()
	crd := internal(t, filepath.Join(folder, "stategraft.io_"+plural+".yaml"))
	schema := crd.Spec.Versions[0].Schema
	if schema == nil {
		schema = crd.Spec.Validation // where the conversion puts one that all versions share
	}
	structural, err := structuralschema.NewStructural(schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := schemavalidation.NewSchemaValidator(schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	return &definition{crd.Spec.Names.Kind, structural, cel.NewValidator(structural, true, celconfig.PerCallLimit), validator}
}

// object is one of the kind, with its defaults, and pruned.
func (d *definition) object(t *testing.T, name, spec, status string) map[string]any {
	t.Helper()
	text, err := yaml.YAMLToJSONStrict(fmt.Appendf(nil, "{apiVersion: stategraft.io/v1alpha1, kind: %s, metadata: {name: %s}, spec: {%s}, status: {%s}}", d.kind, name, spec, status))
	if err != nil {
		t.Fatalf("%s, %s: %v", spec, status, err)
	}
	var o map[string]any
	if err := utiljson.Unmarshal(text, &o); err != nil { // numbers are whole where they can be
		t.Fatal(err)
	}
	if unknown := pruning.PruneWithOptions(o, d.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}); len(unknown) > 0 {
		t.Fatalf("%s, %s: unknown: %v", spec, status, unknown)
	}
	defaulting.Default(o, d.structural)
	return o
}

// judge is what the API server says of an object, or of a change to it; empty where
// it takes it.
func (d *definition) judge(o, old map[string]any) string {
	var errs field.ErrorList
	var before any
	if old == nil {
		errs = schemavalidation.ValidateCustomResource(nil, o, d.schema)
	} else {
		errs = schemavalidation.ValidateCustomResourceUpdate(nil, o, old, d.schema)
		before = old
	}
	ruled, _ := d.rules.Validate(context.Background(), nil, d.structural, o, before, celconfig.RuntimeCELCostBudget)
	if errs = append(errs, ruled...); len(errs) == 0 {
		return ""
	}
	return errs.ToAggregate().Error()
}

// want wants a verdict to say something, or nothing.
func want(t *testing.T, what, got, want string) {
	t.Helper()
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestDefinitionsAreTaken is whether the API server would take the files: among what
// it refuses are rules that might cost too much.
func TestDefinitionsAreTaken(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for _, err := range validation.ValidateCustomResourceDefinition(t.Context(), internal(t, file)) {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
	}
}
