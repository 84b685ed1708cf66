package check

import (
	"errors"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"
)

// noon is when the tests take place.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// read reads an object from YAML, strictly.
func read[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return object
}

// expect compares findings with lines "status subject: part of the message", in
// order; a subject may be empty. Findings that are more than asked for must have a
// remedy.
func expect(t *testing.T, what string, got []Finding, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d findings, want %d: %+v", what, len(got), len(want), got)
		return
	}
	for i, line := range want {
		status, rest, _ := strings.Cut(line, " ")
		subject, part, _ := strings.Cut(rest, ": ")
		if got[i].Status != Status(status) || got[i].Subject != subject || !strings.Contains(got[i].Message, part) {
			t.Errorf("%s: finding %d is %+v, want %q", what, i, got[i], line)
		}
		if got[i].Status.Worse(Skip) && got[i].Remedy == "" {
			t.Errorf("%s: finding %d says not what settles it: %+v", what, i, got[i])
		}
	}
}

// errNoRight is the API server's refusal to somebody without a right.
var errNoRight = apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New("no right"))

// barely is the least configuration that has our webhook.
var barely = admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: webhookName}}}
