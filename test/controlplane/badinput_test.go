package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// badInput is what no API server sends, or nobody means. Status is that of the
// answer; where it is 200, the pod is admitted, and refused only where refused
// says so.
type badInput struct {
	name        string
	body        func(t *testing.T) []byte
	contentType string
	status      int
	refused     bool
}

// reviewWith is the request that the API server sends for a pod of a plain
// StatefulSet, changed.
func reviewWith(change func(review, request, pod map[string]any)) func(*testing.T) []byte {
	return func(t *testing.T) []byte {
		t.Helper()
		pod := readPod(t, filepath.Join(shared.Root, "test", "corpus", "pods", "plain-official-41.yaml")).Object
		request := map[string]any{
			"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": "CREATE", "namespace": "bad-input", "name": "cassandra-0",
			"kind":     map[string]any{"group": "", "version": "v1", "kind": "Pod"},
			"resource": map[string]any{"group": "", "version": "v1", "resource": "pods"},
			"userInfo": map[string]any{"username": "somebody"}, "object": pod,
		}
		review := map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
		change(review, request, pod)
		body, err := json.Marshal(review)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
}

func text(s string) func(*testing.T) []byte { return func(*testing.T) []byte { return []byte(s) } }

func setAnnotations(pod map[string]any, annotations map[string]any) {
	pod["metadata"].(map[string]any)["annotations"] = annotations
}

func badInputs() []badInput {
	const jsonType = "application/json"
	configMap := func(_, request, _ map[string]any) {
		request["kind"] = map[string]any{"group": "", "version": "v1", "kind": "ConfigMap"}
		request["object"] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}, "data": map[string]any{"a": "b"}}
	}
	many := func(_, _, pod map[string]any) {
		var env []any
		for i := range 1500 {
			env = append(env, map[string]any{"name": fmt.Sprintf("VARIABLE_%d", i), "value": "x"})
		}
		pod["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["env"] = env
	}
	deep := strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000)
	long := strings.Repeat("x", 200_000)
	return []badInput{
		{"empty body", text(""), jsonType, 400, false},
		{"no JSON", text("hello"), jsonType, 400, false},
		{"cut off", func(t *testing.T) []byte { b := reviewWith(func(_, _, _ map[string]any) {})(t); return b[:len(b)/2] }, jsonType, 400, false},
		{"malformed AdmissionReview", text(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":"none"}`), jsonType, 400, false},
		{"no request", text(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), jsonType, 0, false},
		{"null request", text(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}`), jsonType, 0, false},
		{"another kind of object", text(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`), jsonType, 0, false},
		{"a list", text(`[]`), jsonType, 400, false},
		{"over the limit", func(*testing.T) []byte { return bytes.Repeat([]byte(" "), 8<<20+1) }, jsonType, 413, false},
		{"a large pod over the limit", reviewWith(func(_, _, pod map[string]any) {
			setAnnotations(pod, map[string]any{"x": strings.Repeat("x", 8<<20)})
		}), jsonType, 413, false},
		{"text/plain", reviewWith(func(_, _, _ map[string]any) {}), "text/plain", 0, false},
		{"no content type", reviewWith(func(_, _, _ map[string]any) {}), "", 0, false},
		{"a ConfigMap", reviewWith(configMap), jsonType, 200, false},
		{"v1beta1", reviewWith(func(review, _, _ map[string]any) { review["apiVersion"] = "admission.k8s.io/v1beta1" }), jsonType, 200, false},
		{"v2", reviewWith(func(review, _, _ map[string]any) { review["apiVersion"] = "admission.k8s.io/v2" }), jsonType, 0, false},
		{"empty object", reviewWith(func(_, request, _ map[string]any) { request["object"] = map[string]any{} }), jsonType, 200, false},
		{"no object", reviewWith(func(_, request, _ map[string]any) { delete(request, "object") }), jsonType, 200, false},
		{"null object", reviewWith(func(_, request, _ map[string]any) { request["object"] = nil }), jsonType, 200, false},
		{"object of another type", reviewWith(func(_, request, _ map[string]any) { request["object"] = []any{1} }), jsonType, 200, false},
		{"UPDATE", reviewWith(func(_, request, pod map[string]any) { request["operation"], request["oldObject"] = "UPDATE", pod }), jsonType, 200, false},
		{"UPDATE with a restore", reviewWith(func(_, request, pod map[string]any) {
			request["operation"], request["oldObject"] = "UPDATE", pod
			setAnnotations(pod, map[string]any{api.AnnotationRestore: "nightly"})
		}), jsonType, 200, false},
		{"DELETE", reviewWith(func(_, request, pod map[string]any) {
			request["operation"], request["oldObject"], request["object"] = "DELETE", pod, nil
		}), jsonType, 200, false},
		{"1,500 variables", reviewWith(many), jsonType, 200, false},
		{"annotations of 200 kB", reviewWith(func(_, _, pod map[string]any) {
			setAnnotations(pod, map[string]any{"x": long, api.AnnotationMedusaImage: long, api.AnnotationColocateWith: long, api.AnnotationContainer: long})
		}), jsonType, 200, false},
		{"a restore of 200 kB", reviewWith(func(_, _, pod map[string]any) { setAnnotations(pod, map[string]any{api.AnnotationRestore: long}) }), jsonType, 200, true},
		{"an annotation that is a number", reviewWith(func(_, _, pod map[string]any) { setAnnotations(pod, map[string]any{"x": 1}) }), jsonType, 200, false},
		{"a restore in a pod that cannot be read", reviewWith(func(_, _, pod map[string]any) {
			setAnnotations(pod, map[string]any{api.AnnotationRestore: "nightly"})
			pod["spec"] = "none"
		}), jsonType, 200, true},
		{"containers that are no list", reviewWith(func(_, _, pod map[string]any) { pod["spec"].(map[string]any)["containers"] = "none" }), jsonType, 200, false},
		{"deeply nested", func(t *testing.T) []byte {
			body := reviewWith(func(_, _, pod map[string]any) { setAnnotations(pod, map[string]any{"x": "DEEP"}) })(t)
			return bytes.Replace(body, []byte(`"DEEP"`), []byte(deep), 1)
		}, jsonType, 0, false},
		{"deeply nested, all of it", text(deep), jsonType, 400, false},
		{"invalid UTF-8", func(t *testing.T) []byte {
			body := reviewWith(func(_, _, pod map[string]any) { setAnnotations(pod, map[string]any{"x": "BYTES"}) })(t)
			return bytes.Replace(body, []byte("BYTES"), []byte{0xff, 0xfe}, 1)
		}, jsonType, 0, false},
	}
}

// TestBadInput sends the webhook what it should never be sent. Each gets an
// answer: an HTTP status of 4xx, upon which the API server admits the pod
// (failurePolicy Ignore), or an admission. The process lives on.
func TestBadInput(t *testing.T) {
	ctx, rig := start(t)
	namespace(ctx, t, "bad-input", labelled(), nil)
	for _, c := range badInputs() {
		t.Run(c.name, func(t *testing.T) {
			status, body := sendBody(ctx, t, http.MethodPost, c.contentType, c.body(t))
			if c.status != 0 && status != c.status {
				t.Errorf("status %d, want %d: %.200s", status, c.status, body)
			}
			switch {
			case status == http.StatusOK:
				var review admissionv1.AdmissionReview
				if err := json.Unmarshal(body, &review); err != nil || review.Response == nil {
					t.Fatalf("the answer is no AdmissionReview: %v, %.200s", err, body)
				}
				if review.Response.Allowed == c.refused {
					t.Errorf("allowed is %v: %+v", review.Response.Allowed, review.Response.Result)
				}
				if len(body) > 64<<10 {
					t.Errorf("the answer has %d bytes", len(body))
				}
			case status >= 400 && status < 500:
				if c.refused || len(bytes.TrimSpace(body)) == 0 || len(body) > 2<<10 {
					t.Errorf("status %d with %d bytes: %.200s", status, len(body), body)
				}
			default:
				t.Errorf("status %d: %.200s", status, body)
			}
			if !rig.Webhook.Running() {
				t.Fatal("the webhook has ended")
			}
		})
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		if status, body := sendBody(ctx, t, method, "application/json", nil); status < 400 || status >= 500 {
			t.Errorf("%s: status %d, %.200s", method, status, body)
		}
	}
	if log := rig.Webhook.Log(); strings.Contains(log, strings.Repeat("x", 1000)) || strings.Contains(log, "panic") {
		t.Error("the log has a request's content or a panic in it")
	}
	// And it does its work as before.
	got, _ := mustCreate(ctx, t, "bad-input", readPod(t, filepath.Join(rig.Root, "test", "corpus", "pods", "plain-official-41.yaml")))
	if addedTo(typed(t, got)).none() {
		t.Error("the webhook does not inject any more")
	}
}

func sendBody(ctx context.Context, t *testing.T, method, contentType string, body []byte) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, shared.Webhook.URL(), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := shared.Webhook.Client().Do(request)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	return response.StatusCode, answer
}
