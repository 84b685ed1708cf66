package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stategraft/stategraft/workload"
)

// maxBody is the largest request that is read: two objects of the largest size
// that the API server takes, and the rest (sigs.k8s.io/controller-runtime
// pkg/webhook/admission/http.go has the same).
const maxBody = 7 << 20

// New makes the http.Handler to register at Path of controller-runtime's
// webhook server. It stands in for admission.Webhook, which answers what it
// cannot decode with allowed: false; here that is an HTTP status, so that the
// failurePolicy applies and the pod is admitted. See docs/decisions/0005.
func New(h *Handler) http.Handler { return front{h} }

type front struct{ handler *Handler }

// admissionReview is what is read of an AdmissionReview, of admission.k8s.io/v1 or
// v1beta1, which are alike.
type admissionReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    *struct {
		UID  string `json:"uid"`
		Kind struct {
			Group   string `json:"group"`
			Version string `json:"version"`
			Kind    string `json:"kind"`
		} `json:"kind"`
		SubResource string         `json:"subResource"`
		Name        string         `json:"name"`
		Namespace   string         `json:"namespace"`
		Operation   string         `json:"operation"`
		DryRun      *bool          `json:"dryRun"`
		Object      jsontext.Value `json:"object"`
	} `json:"request"`
}

func (f front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, status, err := readBody(w, r)
	if err != nil {
		f.fail(w, status, err)
		return
	}
	var in admissionReview
	// The pod is read strictly later, where a fault in it does not cost it its restore.
	lenient := jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := jsonv2.Unmarshal(body, &in, lenient); err != nil {
		f.fail(w, http.StatusBadRequest, fmt.Errorf("this is no AdmissionReview: %s", fault(err)))
		return
	}
	if err := in.check(); err != nil {
		f.fail(w, http.StatusBadRequest, err)
		return
	}
	request := in.request()
	response := f.handler.Handle(r.Context(), request)
	if err := response.Complete(request); err != nil {
		f.fail(w, http.StatusInternalServerError, fmt.Errorf("completing the answer: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: in.APIVersion, Kind: in.Kind},
		Response: &response.AdmissionResponse,
	}); err != nil {
		f.handler.Log.Error(err, "writing the answer", "requestID", request.UID)
	}
}

// fail answers a request that is none. The body is not logged, nor quoted.
func (f front) fail(w http.ResponseWriter, status int, err error) {
	f.handler.Log.Info("request not understood", "status", status, "error", workload.Clip(err.Error(), 200))
	http.Error(w, "stategraft: "+workload.Clip(err.Error(), 200), status)
}

func readBody(w http.ResponseWriter, r *http.Request) (body []byte, status int, err error) {
	if r.Method != http.MethodPost {
		return nil, http.StatusMethodNotAllowed, fmt.Errorf("method %s; an AdmissionReview is posted", workload.Short(r.Method))
	}
	if content := r.Header.Get("Content-Type"); content != "application/json" {
		if media, _, err := mime.ParseMediaType(content); err != nil || media != "application/json" {
			return nil, http.StatusUnsupportedMediaType, fmt.Errorf("content type %q; it has to be application/json", workload.Short(content))
		}
	}
	if r.ContentLength > maxBody {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the request is larger than %d bytes", maxBody)
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, http.StatusBadRequest, errors.New("the request is empty")
	}
	limited := http.MaxBytesReader(w, r.Body, maxBody)
	if r.ContentLength > 0 {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(limited, body)
	} else {
		body, err = io.ReadAll(limited)
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the request is larger than %d bytes", maxBody)
	}
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("reading the request: %w", err)
	}
	return body, 0, nil
}

func (in *admissionReview) check() error {
	if in.Kind != "AdmissionReview" || in.APIVersion != "admission.k8s.io/v1" && in.APIVersion != "admission.k8s.io/v1beta1" {
		return fmt.Errorf("this is %s %s; it has to be an AdmissionReview of admission.k8s.io/v1", workload.Short(in.APIVersion), workload.Short(in.Kind))
	}
	if in.Request == nil || in.Request.UID == "" {
		return errors.New("the AdmissionReview has no request, or one without a uid")
	}
	return nil
}

func (in *admissionReview) request() admission.Request {
	r := in.Request
	var request admission.Request
	request.UID = types.UID(r.UID)
	request.Kind = metav1.GroupVersionKind{Group: r.Kind.Group, Version: r.Kind.Version, Kind: r.Kind.Kind}
	request.SubResource, request.Name, request.Namespace = r.SubResource, r.Name, r.Namespace
	request.Operation, request.DryRun = admissionv1.Operation(r.Operation), r.DryRun
	request.Object.Raw = r.Object
	return request
}
