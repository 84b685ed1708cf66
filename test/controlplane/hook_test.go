package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/certs"
)

// hook is another mutating webhook. Its name decides whether the API server
// calls it before or after ours, which is called stategraft: by the alphabet.
type hook struct {
	name   string
	labels map[string]string // of the namespaces whose pods it sees
	change func(pod *corev1.Pod) []jsonpatch.Operation

	mu     sync.Mutex
	bodies [][]byte // requests as they came
}

// seen are the requests until now.
func (h *hook) seen() [][]byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bodies
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var review admissionv1.AdmissionReview
	var pod corev1.Pod
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
		http.Error(w, "no AdmissionReview", http.StatusBadRequest)
		return
	}
	if err := json.Unmarshal(review.Request.Object.Raw, &pod); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.bodies = append(h.bodies, body)
	h.mu.Unlock()
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if h.change != nil {
		if operations := h.change(&pod); len(operations) > 0 {
			patch, err := json.Marshal(operations)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			kind := admissionv1.PatchTypeJSONPatch
			response.Patch, response.PatchType = patch, &kind
		}
	}
	review.Request, review.Response = nil, response
	_ = json.NewEncoder(w).Encode(review) // the caller hears of a broken connection itself
}

// install serves the hook, registers it, and waits until the API server calls it.
func (h *hook) install(ctx context.Context, t *testing.T, inNamespace string) {
	t.Helper()
	pair, err := certs.SelfSigned([]string{"127.0.0.1"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)

	fail, none, reinvoke := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.NeverReinvocationPolicy
	configurations := shared.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err = configurations.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: h.name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:              h.name + ".example.com",
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: pair.CA},
			FailurePolicy:     &fail,
			SideEffects:       &none,
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: h.labels},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			ReinvocationPolicy:      &reinvoke,
			AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("registering webhook %s: %v", h.name, err)
	}
	t.Cleanup(func() {
		if err := configurations.Delete(context.Background(), h.name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("removing webhook %s: %v", h.name, err)
		}
	})
	probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "example.invalid/probe"}}}}
	await(ctx, t, "the API server to call webhook "+h.name, func() bool {
		if _, err := shared.Client.CoreV1().Pods(inNamespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Logf("probing: %v", err)
		}
		return len(h.seen()) > 0
	})
	h.mu.Lock()
	h.bodies = nil
	h.mu.Unlock()
}

// compact tells that a body is one line of JSON, as the API server sends it.
func compact(body []byte) bool {
	var b bytes.Buffer
	return json.Compact(&b, body) == nil && bytes.Equal(bytes.TrimSpace(b.Bytes()), bytes.TrimSpace(body))
}
