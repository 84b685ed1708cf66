package ask

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// ErrFinal says that nothing can be changed any more.
var ErrFinal = errors.New("is over")

// Change is what can be done to a Restore that is accepted.
type Change string

// The changes.
const (
	Cancel  Change = "cancel"
	Suspend Change = "suspend"
	Resume  Change = "resume"
)

// patch sets its field of the spec.
func (c Change) patch() []byte {
	switch c {
	case Cancel:
		return []byte(`{"spec":{"cancel":true}}`)
	case Suspend:
		return []byte(`{"spec":{"suspend":true}}`)
	default:
		return []byte(`{"spec":{"suspend":false}}`)
	}
}

// Possible tells why it is not to be changed, if so. One that failed and keeps pods
// from starting can still be cancelled.
func (c Change) Possible(r *api.Restore) error {
	if !r.Status.Phase.Final() || c == Cancel && len(r.Status.Pending) > 0 {
		return nil
	}
	return fmt.Errorf("the Restore %s %w (%s): there is nothing to %s", r.Name, ErrFinal, r.Status.Phase, c)
}

// Already says that it is so without the change; empty where it is not.
func (c Change) Already(r *api.Restore) string {
	switch {
	case r.Status.Phase.Final():
	case c == Suspend && r.Spec.Suspend:
		return "is suspended already"
	case c == Resume && !r.Spec.Suspend:
		return "is not suspended"
	}
	return ""
}

// Apply changes it. Only these fields are written: what somebody else changes
// meanwhile stays.
func (c Change) Apply(ctx context.Context, to client.Client, r *api.Restore) error {
	if err := to.Patch(ctx, r, client.RawPatch(types.MergePatchType, c.patch())); err != nil {
		return Explain(err, "patch", restores, r.Namespace, r.Name)
	}
	return nil
}

// looks is how often a controller's doing is looked for.
const looks = 250 * time.Millisecond

// Acted tells whether a controller does anything about a cancellation: before is as
// it was when it was asked for. It looks once at least. The state that it has then is
// given, or nil where the object is gone.
func Acted[O any, P object[O]](ctx context.Context, c client.Reader, before P, until time.Time) (P, bool, error) {
	was := lookAt(before)
	for {
		now := P(new(O))
		err := c.Get(ctx, client.ObjectKeyFromObject(before), now)
		is := lookAt(now)
		switch {
		case ctx.Err() != nil:
			return nil, false, ctx.Err()
		case apierrors.IsNotFound(err) || err == nil && now.GetUID() != before.GetUID():
			return nil, true, nil
		case err != nil && time.Now().After(until):
			return nil, false, Explain(err, "get", was.resource, before.GetNamespace(), before.GetName())
		case err == nil && (now.GetGeneration() > 0 && is.observed >= now.GetGeneration() || !equality.Semantic.DeepEqual(is.status, was.status)):
			return now, true, nil
		case err == nil && !time.Now().Before(until):
			return now, false, nil
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-time.After(looks):
		}
	}
}

// NotActed is what to do about a cancellation that no controller acts on.
func NotActed(r *api.Restore, after time.Duration) error {
	at := fmt.Sprintf("restores.%s %s -n %s", api.Group, r.Name, r.Namespace)
	return fmt.Errorf("the Restore %s is to be cancelled, and nobody has acted on it for %s: see kubectl stategraft check (does the controller run?). "+
		"One that starts again cancels it. With no controller left (docs/restore.md, \"To open the way\"):\n"+
		"  kubectl patch %s --type merge -p '{\"metadata\":{\"finalizers\":null}}'\n  kubectl delete %s", r.Name, after, at, at)
}
