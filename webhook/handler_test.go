package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/stategraft/stategraft/workload"
)

// serve posts a body and gives the answer; review is nil where it is none.
func serve(tb testing.TB, h *Handler, body []byte) (*http.Response, *admissionv1.AdmissionResponse) {
	tb.Helper()
	return serveReader(tb, h, bytes.NewReader(body), "application/json")
}

func serveReader(tb testing.TB, h *Handler, body io.Reader, contentType string) (*http.Response, *admissionv1.AdmissionResponse) {
	tb.Helper()
	request := httptest.NewRequest(http.MethodPost, Path, body)
	request.Header.Set("Content-Type", contentType)
	recorder := httptest.NewRecorder()
	New(h).ServeHTTP(recorder, request)
	var out admissionv1.AdmissionReview
	if json.Unmarshal(recorder.Body.Bytes(), &out) != nil || out.Response == nil {
		return recorder.Result(), nil
	}
	return recorder.Result(), out.Response
}

// What cannot be decoded gets a status of HTTP, by which the API server goes by
// the failurePolicy. allowed: false would refuse the pod whatever that says.
func TestUndecodable(t *testing.T) {
	good := string(review(t, cassandraPod, admissionv1.Create))
	for _, c := range []struct {
		what, body, contentType string
	}{
		{"empty", "", "application/json"},
		{"no JSON", "hello", "application/json"},
		{"cut off", good[:len(good)/2], "application/json"},
		{"a list", "[]", "application/json"},
		{"null", "null", "application/json"},
		{"another object", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`, "application/json"},
		{"no kind", `{"request":{"uid":"u"}}`, "application/json"},
		{"no request", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, "application/json"},
		{"wrong type", strings.Replace(good, `"namespace":"cassandra"`, `"namespace":5`, 1), "application/json"},
		{"other version", strings.Replace(good, "admission.k8s.io/v1", "admission.k8s.io/v9", 1), "application/json"},
		{"form", good, "application/x-www-form-urlencoded"},
		{"no content type", good, ""},
	} {
		response, answer := serveReader(t, testHandler(labelled()), strings.NewReader(c.body), c.contentType)
		if response.StatusCode < 400 || response.StatusCode > 499 || answer != nil {
			t.Errorf("%s: status %d, response %+v", c.what, response.StatusCode, answer)
		}
		text, _ := io.ReadAll(response.Body)
		if !strings.HasPrefix(string(text), "stategraft: ") || len(text) > 1000 {
			t.Errorf("%s: text %q", c.what, text)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestBodies(t *testing.T) {
	h := testHandler(labelled())
	if response, answer := serveReader(t, h, failing{}, "application/json"); response.StatusCode < 400 || answer != nil {
		t.Errorf("unreadable body: status %d, %+v", response.StatusCode, answer)
	}
	huge := io.MultiReader(strings.NewReader(`{"x":"`), io.LimitReader(endless{}, 64<<20), strings.NewReader(`"}`))
	if response, answer := serveReader(t, h, huge, "application/json"); response.StatusCode < 400 || answer != nil {
		t.Errorf("huge body: status %d, %+v", response.StatusCode, answer)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestRequests are requests that can be decoded; none but that of a pod which
// asks for a restore may be refused.
func TestRequests(t *testing.T) {
	environment := withSpec(t, cassandraPod, func(spec map[string]any) {
		var env []any
		for range 1500 {
			env = append(env, map[string]any{"name": strings.Repeat("N", 20), "value": strings.Repeat("v", 100)})
		}
		spec["containers"].([]any)[0].(map[string]any)["env"] = env
	})
	long := strings.Repeat("ü", 100_000)
	create := string(review(t, cassandraPod, admissionv1.Create))
	for _, c := range []struct {
		what, body string
		reason     workload.Reason
		refused    bool
	}{
		{"good", create, "", false},
		{"v1beta1", strings.Replace(create, "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1), "", false},
		{"update", string(review(t, cassandraPod, admissionv1.Update)), workload.ReasonNotAPodCreation, false},
		{"update with a bad restore", string(review(t, annotated(t, cassandraPod, map[string]string{"stategraft.io/restore": ""}), admissionv1.Update)), workload.ReasonNotAPodCreation, false},
		{"deletion", string(review(t, []byte("null"), admissionv1.Delete)), workload.ReasonNotAPodCreation, false},
		{"wrong kind", strings.Replace(create, `"kind":{"group":"","version":"v1","kind":"Pod"}`, `"kind":{"group":"apps","version":"v1","kind":"StatefulSet"}`, 1), workload.ReasonNotAPodCreation, false},
		{"subresource", strings.Replace(create, `"operation"`, `"subResource":"binding","operation"`, 1), workload.ReasonNotAPodCreation, false},
		{"empty object", string(review(t, []byte("{}"), admissionv1.Create)), workload.ReasonNotADatabase, false},
		{"null object", string(review(t, []byte("null"), admissionv1.Create)), "", false},
		{"object of a wrong type", string(review(t, []byte(`{"spec":{"containers":"x"}}`), admissionv1.Create)), workload.ReasonUnreadablePod, false},
		{"the same with a restore", string(review(t, []byte(`{"metadata":{"annotations":{"stategraft.io/restore":"b"}},"spec":{"containers":"x"}}`), admissionv1.Create)), workload.ReasonUnreadablePod, true},
		{"1,500 variables", string(review(t, environment, admissionv1.Create)), "", false},
		{"200 kB of an annotation", string(review(t, annotated(t, cassandraPod, map[string]string{"stategraft.io/config-map": long}), admissionv1.Create)), workload.ReasonBadAnnotation, false},
		{"200 kB of another's", string(review(t, annotated(t, cassandraPod, map[string]string{"example.com/x": long}), admissionv1.Create)), "", false},
		{"200 kB of restore", string(review(t, annotated(t, cassandraPod, map[string]string{"stategraft.io/restore": long}), admissionv1.Create)), workload.ReasonBadAnnotation, true},
		{"unknown namespace", strings.Replace(create, `"namespace":"cassandra"`, `"namespace":"new"`, 1), "", false},
	} {
		response, answer := serve(t, testHandler(labelled()), []byte(c.body))
		if response.StatusCode != http.StatusOK || answer == nil {
			t.Errorf("%s: status %d", c.what, response.StatusCode)
			continue
		}
		if answer.Allowed == c.refused {
			t.Errorf("%s: allowed is %v: %v", c.what, answer.Allowed, answer.Result)
		}
		if reason := answer.AuditAnnotations["reason"]; c.what != "null object" && reason != string(c.reason) {
			t.Errorf("%s: reason %q, want %q", c.what, reason, c.reason)
		}
		if answer.UID != "705ab4f5-6393-11e8-b7cc-42010a800002" || answer.Result == nil || len(answer.Result.Message) > 1000 {
			t.Errorf("%s: uid %q, result %+v", c.what, answer.UID, answer.Result)
		}
		if c.refused != (answer.Result.Code == http.StatusForbidden) {
			t.Errorf("%s: code %d", c.what, answer.Result.Code)
		}
		checkWarnings(t, answer.Warnings)
	}
}

// broken is a Namespaces that fails as a bug would.
type broken struct{}

func (broken) Namespace(string) Namespace { panic("a bug, with s3cr3t in it") }

// A panic admits the pod as it is, with a warning, unless it asks for a restore.
func TestPanic(t *testing.T) {
	for _, asks := range []bool{false, true} {
		raw := cassandraPod
		if asks {
			raw = annotated(t, cassandraPod, wantsRestore)
		}
		h, events := testHandler(labelled()), &recorded{}
		h.Namespaces, h.Events = broken{}, events
		response, answer := serve(t, h, review(t, raw, admissionv1.Create))
		if response.StatusCode != http.StatusOK || answer == nil {
			t.Fatalf("status %d", response.StatusCode)
		}
		if answer.Allowed == asks || answer.Patch != nil || answer.AuditAnnotations["reason"] != "internal-error" {
			t.Errorf("restore %v: %+v", asks, answer)
		}
		if !asks && (len(answer.Warnings) != 1 || !strings.Contains(answer.Warnings[0], "internal-error")) {
			t.Errorf("warnings %q", answer.Warnings)
		}
		if asks && !strings.Contains(answer.Result.Message, `"b1"`) {
			t.Errorf("message %q", answer.Result.Message)
		}
		if len(events.skipped) != 1 {
			t.Errorf("restore %v: events %q", asks, events.skipped)
		}
	}
}

// Warnings are cut where a character ends, and counted where there are many.
func TestWarnings(t *testing.T) {
	out := Outcome{Decision: workload.Decision{Verdict: workload.Inject}}
	for range 17 {
		out.Warnings = append(out.Warnings, "x")
	}
	lines := warnings(out)
	checkWarnings(t, lines)
	if n := len(lines); n != 10 || lines[9] != "stategraft: and 8 more" {
		t.Errorf("%d warnings: %q", n, lines)
	}
	for cut := range 4 { // each alignment of a character of three bytes
		long := strings.Repeat("x", cut) + strings.Repeat("€", 200)
		checkWarnings(t, warnings(Outcome{Decision: workload.Decision{Verdict: workload.Skip, Reason: workload.ReasonBadAnnotation, Message: long}}))
	}
}
