package webhook

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// corpus gives the JSON of every pod of the corpus, by name.
func corpus(tb testing.TB) map[string][]byte {
	tb.Helper()
	pods := map[string][]byte{}
	for _, dir := range []string{"pods", "extra/pods"} {
		files, err := filepath.Glob(filepath.Join("..", "test", "corpus", dir, "*.yaml"))
		if err != nil || len(files) == 0 {
			tb.Fatalf("no pods in %s (%v)", dir, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				tb.Fatal(err)
			}
			raw, err := yaml.YAMLToJSONStrict(text)
			if err != nil {
				tb.Fatalf("%s: %v", file, err)
			}
			name := strings.TrimSuffix(filepath.Base(file), ".yaml")
			if _, twice := pods[name]; twice {
				tb.Fatalf("two pods of the corpus are called %s", name)
			}
			pods[name] = raw
		}
	}
	return pods
}

// labelled is a namespace that asks for injection.
func labelled() Namespace {
	return Namespace{Name: "cassandra", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}
}

// decideOn decides as the webhook does in a labelled namespace.
func decideOn(raw []byte) Outcome {
	return Decide(Input{Pod: raw, Namespace: labelled(), Config: DefaultConfig(), NativeSidecars: true})
}

// tree decodes JSON without losing how numbers were written.
func tree(raw []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var out any
	err := decoder.Decode(&out)
	return out, err
}

func mustTree(tb testing.TB, raw []byte) map[string]any {
	tb.Helper()
	decoded, err := tree(raw)
	if err != nil {
		tb.Fatal(err)
	}
	object, ok := decoded.(map[string]any)
	if !ok {
		tb.Fatalf("no object but %T", decoded)
	}
	return object
}

func encode(tb testing.TB, v any) []byte {
	tb.Helper()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		tb.Fatal(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// annotated gives the pod with annotations added; a nil value takes one away.
func annotated(tb testing.TB, raw []byte, annotations map[string]string) []byte {
	tb.Helper()
	return withMetadata(tb, raw, "annotations", annotations)
}

func withMetadata(tb testing.TB, raw []byte, member string, values map[string]string) []byte {
	tb.Helper()
	pod := mustTree(tb, raw)
	metadata, _ := pod["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		pod["metadata"] = metadata
	}
	have, _ := metadata[member].(map[string]any)
	if have == nil {
		have = map[string]any{}
		metadata[member] = have
	}
	for key, value := range values {
		have[key] = value
	}
	return encode(tb, pod)
}

// withSpec gives the pod with its spec edited.
func withSpec(tb testing.TB, raw []byte, edit func(spec map[string]any)) []byte {
	tb.Helper()
	pod := mustTree(tb, raw)
	spec, ok := pod["spec"].(map[string]any)
	if !ok {
		tb.Fatal("the pod has no spec")
	}
	edit(spec)
	return encode(tb, pod)
}

// patched applies the outcome's patch, as encoded for the API server, to the
// pod as it was submitted.
func patched(raw []byte, out Outcome) ([]byte, error) {
	if out.Patch == nil {
		return raw, nil
	}
	text, err := patches.Marshal(out.Patch.Operations)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, err
	}
	return patch.Apply(raw)
}

func mustPatch(tb testing.TB, raw []byte, out Outcome) []byte {
	tb.Helper()
	result, err := patched(raw, out)
	if err != nil {
		tb.Fatal(err)
	}
	return result
}
