package webhook

import (
	"context"
	"encoding/json"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	admissionv1 "k8s.io/api/admission/v1"
)

// New makes the http.Handler to serve at Path. What controller-runtime cannot
// decode it answers with allowed: false; here that becomes an HTTP status, so
// that the API server applies the failurePolicy and the pod is admitted.
func New(h *Handler) http.Handler {
	hook := &admission.Webhook{Handler: marking{h}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := &mark{}
		hook.ServeHTTP(&guard{ResponseWriter: w, mark: m}, r.WithContext(context.WithValue(r.Context(), markKey{}, m)))
	})
}

// mark tells that the request was decoded and reached the handler.
type mark struct{ reached bool }

type markKey struct{}

// marking sets the mark and hands on.
type marking struct{ *Handler }

func (m marking) Handle(ctx context.Context, req admission.Request) admission.Response {
	if mark, ok := ctx.Value(markKey{}).(*mark); ok {
		mark.reached = true
	}
	return m.Handler.Handle(ctx, req)
}

// guard rewrites the answer to a request that never reached the handler.
type guard struct {
	http.ResponseWriter
	mark *mark
}

func (g *guard) Write(body []byte) (int, error) {
	if g.mark.reached {
		return g.ResponseWriter.Write(body)
	}
	status, message := http.StatusBadRequest, "bad request"
	var review admissionv1.AdmissionReview
	if json.Unmarshal(body, &review) == nil && review.Response != nil && review.Response.Result != nil {
		if code := int(review.Response.Result.Code); code >= 400 && code < 600 {
			status = code
		}
		message = clipNote(review.Response.Result.Message)
	}
	http.Error(g.ResponseWriter, "stategraft: "+message, status)
	return len(body), nil
}
