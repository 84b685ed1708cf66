// Package webhook answers the API server: it decodes an admission request,
// decides, builds the patch and answers, with warnings, audit annotations,
// metrics and events. It waits for nothing but the processor.
package webhook

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// Path is where the webhook is served.
const Path = "/mutate-v1-pod"

// Events tells the owner of a pod of a decision that it would want to know of.
type Events interface {
	Skipped(namespace string, owner workload.Owner, d workload.Decision)
	Unread(namespace string, owner workload.Owner, warning string)
}

// Handler is the admission handler.
type Handler struct {
	Namespaces Namespaces
	Config     func() *Config
	Events     Events // nil for none
	Log        logr.Logger

	// NativeSidecars tells whether the cluster has them.
	NativeSidecars func() bool

	// HeldBack tells whether the pods of an owner are admitted without injection
	// for now; nil for never.
	HeldBack func(namespace, kind, name string) (api.HeldBack, bool)

	// Order tells what a Restore has to do with a pod; nil for nothing.
	Order func(namespace, pod string) (api.Order, bool)
}

// Handle implements admission.Handler. It never gives controller-runtime's
// Errored: that is allowed: false, which refuses the pod whatever the
// failurePolicy says.
func (h *Handler) Handle(ctx context.Context, req admission.Request) (response admission.Response) {
	start := time.Now()
	var out Outcome
	defer func() {
		if panicked := recover(); panicked != nil {
			h.Log.Error(fmt.Errorf("panic: %v", panicked), "deciding on a pod", "namespace", req.Namespace, "stack", string(debug.Stack()))
			out = h.broken(&req, fmt.Errorf("panic: %v", panicked))
			response = answer(out)
		}
		h.observe(&req, out, time.Since(start))
	}()
	out = h.decide(&req)
	return answer(out)
}

func (h *Handler) decide(req *admission.Request) Outcome {
	if req.Operation != admissionv1.Create || req.Kind.Kind != "Pod" || req.Kind.Group != "" || req.SubResource != "" {
		return Outcome{Decision: workload.Decision{Verdict: workload.Skip, Reason: workload.ReasonNotAPodCreation,
			Message: fmt.Sprintf("only the creation of pods is looked at, not %s of %s", req.Operation, workload.Short(req.Kind.Kind))}}
	}
	in := Input{Pod: req.Object.Raw, Namespace: h.Namespaces.Namespace(req.Namespace), Config: h.Config(), HeldBack: h.HeldBack, Order: h.Order}
	if h.NativeSidecars != nil {
		in.NativeSidecars = h.NativeSidecars()
	}
	return Decide(in)
}

// broken is the outcome of an error of our own: the pod is admitted as it is,
// unless it asks for a restore.
func (h *Handler) broken(req *admission.Request, err error) Outcome {
	out := Outcome{Decision: workload.Decision{Verdict: workload.Skip, Reason: workload.ReasonInternalError, Message: workload.Clip(err.Error(), 200)}}
	out.refuseIfAsked(Input{Pod: req.Object.Raw, Namespace: Namespace{Name: req.Namespace}, Order: h.Order})
	return out
}

// answer turns an outcome into the response.
func answer(out Outcome) admission.Response {
	response := admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed: out.Verdict != workload.Refuse,
		Result:  &metav1.Status{Code: http.StatusOK, Message: out.Message},
		AuditAnnotations: map[string]string{
			"decision": string(out.Verdict), "reason": string(out.Reason), "kind": string(out.Workload.Kind)},
		Warnings: warnings(out),
	}}
	if out.Verdict == workload.Refuse {
		response.Result.Code = http.StatusForbidden
		response.Result.Reason = metav1.StatusReasonForbidden
		response.Result.Message = fmt.Sprintf("stategraft: %s (%s)", out.Message, out.Reason)
		return response
	}
	if out.Patch == nil {
		return response
	}
	text, err := patches.Marshal(out.Patch.Operations)
	if err != nil {
		panic(fmt.Sprintf("encoding the patch: %v", err)) // answered like every error of our own
	}
	jsonPatch := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = text, &jsonPatch
	return response
}

// The API server cuts warnings at 4 kB in all and asks for less than 256
// characters each (k8s.io/apiserver/pkg/endpoints/filters/warning.go).
const (
	warningLimit  = 250
	warningsLimit = 10
)

// warnings are what the person at kubectl is told.
func warnings(out Outcome) []string {
	var lines []string
	if out.Verdict == workload.Skip && out.Reason.Wanted() {
		lines = append(lines, fmt.Sprintf("stategraft: not injected (%s): %s", out.Reason, out.Message))
	}
	for _, text := range out.Warnings {
		lines = append(lines, "stategraft: "+text)
	}
	if len(lines) > warningsLimit {
		lines = append(lines[:warningsLimit-1], fmt.Sprintf("stategraft: and %d more", len(lines)-warningsLimit+1))
	}
	for i, line := range lines {
		lines[i] = workload.Clip(workload.Printable(line), warningLimit)
	}
	return lines
}

// observe counts and logs the outcome and, outside a dry run, tells the owner.
func (h *Handler) observe(req *admission.Request, out Outcome, took time.Duration) {
	admissions.WithLabelValues(string(out.Verdict), string(out.Reason), string(out.Workload.Kind)).Inc()
	latency.Observe(took.Seconds())
	if h.Log.Enabled() {
		h.Log.Info("pod decided", "namespace", req.Namespace, "name", req.Name, "requestID", req.UID, "decision", out.Verdict,
			"reason", out.Reason, "kind", out.Workload.Kind, "message", out.Message, "warnings", out.Warnings, "took", took.String())
	}
	dryRun := req.DryRun != nil && *req.DryRun
	if h.Events != nil && !dryRun && out.Reason != workload.ReasonAlreadyInjected {
		for _, warning := range out.Unread[:min(len(out.Unread), warningsLimit)] {
			h.Events.Unread(req.Namespace, out.Owner, warning)
		}
	}
	if h.Events != nil && !dryRun && out.Verdict != workload.Inject && (out.Reason.Wanted() || out.Verdict == workload.Refuse) {
		h.Events.Skipped(req.Namespace, out.Owner, out.Decision)
	}
}

var _ admission.Handler = (*Handler)(nil)

// ownerReference points an event at the pod's owner.
func ownerReference(namespace string, owner workload.Owner) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: namespace,
		Name: owner.Name, UID: metaUID(owner.UID)}
}
