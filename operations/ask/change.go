package ask

import (
	"context"
	"errors"
	"fmt"

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

// Apply changes it. Only these fields are written: what somebody else changes
// meanwhile stays.
func (c Change) Apply(ctx context.Context, to client.Client, r *api.Restore) error {
	if err := to.Patch(ctx, r, client.RawPatch(types.MergePatchType, c.patch())); err != nil {
		return Explain(err, "patch", restores, r.Namespace, r.Name)
	}
	return nil
}
