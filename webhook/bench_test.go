package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/workload"
)

// The three shapes of the benchmark: an operator's pod with the management API,
// a plain StatefulSet's, a large one of another operator, all injected.
var benchShapes = []string{"cass-operator", "plain-official-41", "elassandra-operator"}

// Floor is what controller-runtime's server costs with a handler that does
// nothing; Admit is the whole of ours; Diff is the same mutation on typed
// structs, encoded again and compared, as most injectors do. Diff is given the
// additions for nothing. All three run the same HTTP path.
func BenchmarkAdmission(b *testing.B) {
	for _, shape := range benchShapes {
		body := reviewOf(b, shape)
		for _, run := range []struct {
			name    string
			handler http.Handler
		}{
			{"Floor", &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
				return admission.Allowed("")
			})}},
			{"Admit", New(benchHandler())},
			{"Diff", &admission.Webhook{Handler: diffHandler(b, shape)}},
		} {
			b.Run(run.name+"/"+shape, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					post(b, run.handler, body)
				}
			})
		}
	}
}

// labelledNamespaces has every namespace, labelled.
type labelledNamespaces struct{}

func (labelledNamespaces) Namespace(name string) Namespace {
	return Namespace{Name: name, Labels: map[string]string{"stategraft.io/inject": "enabled"}}
}

func benchHandler() *Handler {
	config := DefaultConfig()
	return &Handler{Namespaces: labelledNamespaces{}, Config: func() *Config { return config },
		Log: logr.Discard(), NativeSidecars: func() bool { return true }}
}

// diffHandler decodes into core/v1, appends and compares.
func diffHandler(tb testing.TB, shape string) admission.Handler {
	out := Decide(Input{Pod: podOf(tb, shape), Namespace: Namespace{Unknown: true}, Config: DefaultConfig(), NativeSidecars: true})
	if out.Verdict != workload.Inject {
		tb.Fatalf("%s is not injected: %s", shape, out.Message)
	}
	var adds struct {
		Init, Containers []corev1.Container
		Volumes          []corev1.Volume
	}
	text, err := json.Marshal(out.Patch)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(text, &adds); err != nil {
		tb.Fatal(err)
	}
	return admission.HandlerFunc(func(_ context.Context, req admission.Request) admission.Response {
		var pod corev1.Pod
		if err := json.Unmarshal(req.Object.Raw, &pod); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations["stategraft.io/injected"] = "cassandra"
		pod.Spec.Volumes = append(pod.Spec.Volumes, adds.Volumes...)
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, adds.Init...)
		pod.Spec.Containers = append(pod.Spec.Containers, adds.Containers...)
		mutated, err := json.Marshal(&pod)
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		return admission.PatchResponseFromRaw(req.Object.Raw, mutated)
	})
}

// sink is a ResponseWriter that keeps nothing but the status.
type sink struct {
	header http.Header
	status int
	size   int
}

func (s *sink) Header() http.Header            { return s.header }
func (s *sink) WriteHeader(status int)         { s.status = status }
func (s *sink) Write(body []byte) (int, error) { s.size += len(body); return len(body), nil }

func post(tb testing.TB, handler http.Handler, body []byte) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, Path, bytes.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	w := &sink{header: http.Header{}}
	handler.ServeHTTP(w, request)
	if w.status != 0 && w.status != http.StatusOK || w.size == 0 {
		tb.Fatalf("status %d, %d bytes", w.status, w.size)
	}
}

func podOf(tb testing.TB, shape string) []byte {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("..", "test", "corpus", "pods", shape+".yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// reviewOf is an AdmissionReview as an API server sent it for a pod of the shape
// that the StatefulSet controller created (test/controlplane records them).
func reviewOf(tb testing.TB, shape string) []byte {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "reviews", shape+".json"))
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func review(tb testing.TB, pod []byte, operation admissionv1.Operation) []byte {
	tb.Helper()
	dryRun := false
	text, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:             "705ab4f5-6393-11e8-b7cc-42010a800002",
			Kind:            metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource:        metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			RequestKind:     &metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			RequestResource: &metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Namespace:       "cassandra", Operation: operation, DryRun: &dryRun,
			UserInfo: authenticationv1.UserInfo{Username: "system:serviceaccount:kube-system:statefulset-controller",
				UID: "a5a2e1b0-8c3a-4e55-9d0e-7b8f8f6c2f11", Groups: []string{"system:serviceaccounts", "system:authenticated"}},
			Object:  runtime.RawExtension{Raw: pod},
			Options: runtime.RawExtension{Raw: []byte(`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}`)},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// fixedNamespaces has some namespaces; the others are unknown.
type fixedNamespaces map[string]Namespace

func (f fixedNamespaces) Namespace(name string) Namespace {
	if ns, ok := f[name]; ok {
		return ns
	}
	return Namespace{Name: name, Unknown: true}
}
