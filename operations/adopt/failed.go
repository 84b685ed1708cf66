package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// failed says what came of an addition that the API server did not carry out, and whether it
// may have been, by us or by somebody quicker. That shows when the pod is read again; until
// then, but not for long, it counts as being adopted, or another of its workload would be
// taken beside it.
func (c *controller) failed(ctx context.Context, t *turn, one *candidate, err error) (maybe bool) {
	switch {
	case gone(err), ctx.Err() != nil:
		return false
	case apierrors.IsConflict(err):
		t.left = true
		return true
	}
	why := fmt.Sprintf("the API server does not take its containers: %s", workload.Clip(err.Error(), 600))
	if apierrors.IsNotFound(err) && !strings.Contains(err.Error(), denied) {
		why = "the API server has no subresource pods/ephemeralcontainers, by which containers are added and which Kubernetes has since 1.25: upgrade the control plane, or have the pod created anew"
	}
	c.putOff(ctx, one, why, err)
	if maybe = unanswered(err); maybe {
		one.memory.unsure = c.Clock().Add(unsureFor)
	}
	return maybe
}

// denied is how the API server tells of a webhook that is against it, with what status that
// may say so (k8s.io/apiserver/pkg/admission/plugin/webhook/errors).
const denied = "denied the request"

// unsureFor is how long what was not answered may still come to be: longer than the API server
// works on a request (kube-apiserver --request-timeout).
const unsureFor = 70 * time.Second

// gone tells whether the API server says that the pod or its namespace is not there. Where it
// does not know the subresource, nothing is named that is not there, or the answer is not one
// of the API.
func gone(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name != "" && !slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}

// unanswered tells whether the API server may have carried out what came back as an error.
func unanswered(err error) bool {
	return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsUnexpectedServerError(err)
}

// unread puts off a pod of which something cannot be read: what is forbidden for as long as
// what is refused, and it is told; else until the next look.
func (c *controller) unread(ctx context.Context, t *turn, one *candidate, what string, err error) {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		c.putOff(ctx, one, fmt.Sprintf("%s cannot be read, for want of a right that the chart gives the controller: %s", what, workload.Clip(err.Error(), 600)), err)
		return
	}
	log.FromContext(ctx).Error(err, "a running pod is not looked at", "namespace", one.pod.Namespace, "pod", one.pod.Name, "unread", what)
	t.left = true
}

// putOff has a pod wait for the next try, each time for longer.
func (c *controller) putOff(ctx context.Context, one *candidate, why string, err error) {
	one.step.Until = one.memory.fail(c.Clock(), c.Backoff, why)
	one.refuse(ReasonRefused, why)
	log.FromContext(ctx).Error(err, "a running pod is not adopted", "namespace", one.pod.Namespace, "pod", one.pod.Name, "why", why, "again", one.step.Until)
}

// again says of a pod that was put off why, and until when.
func (c *candidate) again() {
	c.step.Until = c.memory.until
	c.refuse(ReasonRefused, fmt.Sprintf("%s; tried again at %s", c.memory.why, c.memory.until.UTC().Format(time.RFC3339)))
}

// lacksPair says why it is not known what the containers identify themselves by.
func lacksPair(err error) string {
	if err != nil {
		return fmt.Sprintf("Secret %s of its namespace cannot be read: %s", api.SecretGRPC, workload.Clip(err.Error(), 600))
	}
	return "its namespace has no Secret " + api.SecretGRPC + " yet, which the controller makes there; see kubectl stategraft check"
}
