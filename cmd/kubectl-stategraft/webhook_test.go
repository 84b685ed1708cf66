package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/webhook/offline"
	"github.com/stategraft/stategraft/workload"
)

// everywhere is a cluster whose namespaces are all labelled and no more.
type everywhere struct{}

func (everywhere) Namespace(string) webhook.Namespace { return offline.Labelled() }

// byWebhook sends the pod to the webhook and expects what the command said.
func byWebhook(t *testing.T, raw []byte, config string, order *api.Restore, want golden) {
	t.Helper()
	parsed := webhook.DefaultConfig()
	if config != "" {
		var err error
		if parsed, err = webhook.ParseConfig([]byte(config)); err != nil {
			t.Fatal(err)
		}
	}
	handler := &webhook.Handler{Namespaces: everywhere{}, Config: func() *webhook.Config { return parsed },
		Log: logr.Discard(), NativeSidecars: func() bool { return true }}
	if order != nil {
		handler.Order = func(_, pod string) (api.Order, bool) { return order.Order(pod) }
	}
	response := admit(t, handler, raw)

	e := want.Explain
	if allowed := e.Decision != workload.Refuse; response.Allowed != allowed {
		t.Errorf("allowed is %v, the command says %s", response.Allowed, e.Decision)
	}
	audit := map[string]string{"decision": string(e.Decision), "reason": string(e.Reason), "kind": string(e.Workload.Kind)}
	if !reflect.DeepEqual(response.AuditAnnotations, audit) {
		t.Errorf("audit annotations %v, the command says %v", response.AuditAnnotations, audit)
	}
	message := e.Message
	if e.Decision == workload.Refuse {
		message = fmt.Sprintf("stategraft: %s (%s)", e.Message, e.Reason)
	}
	if response.Result == nil || response.Result.Message != message {
		t.Errorf("message %+v, the command says %q", response.Result, message)
	}
	for _, warning := range e.Warnings {
		if len(warning) < 200 && !slices.Contains(response.Warnings, "stategraft: "+warning) {
			t.Errorf("no warning %q in %q", warning, response.Warnings)
		}
	}
	patch := response.Patch
	if patch == nil {
		patch = []byte("[]")
	}
	if e.Decision == workload.Refuse {
		patch = []byte("null")
		if response.Patch != nil {
			t.Error("a refused pod has a patch")
		}
	}
	if !bytes.Equal(patch, want.Patch) {
		t.Errorf("the webhook's patch is\n%s\nand the command's\n%s", patch, want.Patch)
	}
}

// admit posts an AdmissionReview as the API server does.
func admit(t *testing.T, h *webhook.Handler, raw []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{UID: "u-1", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: "db",
			Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw}},
	})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, webhook.Path, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	webhook.New(h).ServeHTTP(recorder, request)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("status %d, %q: %v", recorder.Code, recorder.Body, err)
	}
	if review.Response.UID != "u-1" {
		t.Errorf("the answer is to %q", review.Response.UID)
	}
	return review.Response
}

// annotate adds annotations, given without the prefix, to a pod.
func annotate(t *testing.T, raw []byte, annotations map[string]string) []byte {
	t.Helper()
	if len(annotations) == 0 {
		return raw
	}
	var pod map[string]any
	if err := json.Unmarshal(raw, &pod); err != nil {
		t.Fatal(err)
	}
	metadata, _ := pod["metadata"].(map[string]any)
	have, _ := metadata["annotations"].(map[string]any)
	if have == nil {
		have = map[string]any{}
		metadata["annotations"] = have
	}
	for key, value := range annotations {
		have["stategraft.io/"+key] = value
	}
	out, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
