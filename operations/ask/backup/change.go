package backup

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

// Change is what can be done to a Backup that is accepted.
type Change string

// The changes.
const (
	Cancel  Change = "cancel"
	Suspend Change = "suspend"
	Resume  Change = "resume"
	Pin     Change = "pin"
	Unpin   Change = "unpin"
)

// patch sets its field of the spec. false is what the field is without it: left out it
// stays out.
func (c Change) patch() []byte {
	field := map[Change]string{Cancel: `"cancel":true`, Suspend: `"suspend":true`, Resume: `"suspend":null`, Pin: `"pinned":true`, Unpin: `"pinned":null`}
	return []byte(`{"spec":{` + field[c] + `}}`)
}

// Done is what it is afterwards, in a word.
func (c Change) Done() string {
	return map[Change]string{Cancel: "cancelled", Suspend: "suspended", Resume: "resumed", Pin: "pinned", Unpin: "unpinned"}[c]
}

// Possible tells why it is not to be changed, if so. What can be done to the data can
// be at any time.
func (c Change) Possible(b *api.Backup) error {
	switch {
	case c == Pin || c == Unpin:
		return nil
	case b.Found():
		return fmt.Errorf("the Backup %s was found in the storage, and nothing here makes it: there is nothing to %s", b.Name, c)
	case !b.DeletionTimestamp.IsZero():
		return fmt.Errorf("the Backup %s is being deleted: there is nothing to %s", b.Name, c)
	case b.Status.Phase.Final():
		return fmt.Errorf("the Backup %s %w (%s): there is nothing to %s", b.Name, ask.ErrFinal, b.Status.Phase, c)
	}
	return nil
}

// Already says that it is so without the change; empty where it is not. To cancel twice
// does no harm, and is looked at twice.
func (c Change) Already(b *api.Backup) string {
	switch {
	case c == Suspend && b.Spec.Suspend:
		return "is suspended already"
	case c == Resume && !b.Spec.Suspend:
		return "is not suspended"
	case c == Pin && b.Spec.Pinned:
		return "is pinned already"
	case c == Unpin && !b.Spec.Pinned:
		return "is not pinned"
	}
	return ""
}

// Apply changes it. Only these fields are written: what somebody else changes
// meanwhile stays.
func (c Change) Apply(ctx context.Context, to client.Client, b *api.Backup) error {
	if err := to.Patch(ctx, b, client.RawPatch(types.MergePatchType, c.patch())); err != nil {
		return ask.Explain(err, "patch", ask.Backups, b.Namespace, b.Name)
	}
	return nil
}

// NotActed is what to do about a cancellation that no controller acts on.
func NotActed(b *api.Backup, after time.Duration) error {
	return fmt.Errorf("the Backup %s is to be cancelled, and nobody has acted on it for %s: see kubectl stategraft check (does the controller run?). "+
		"One that starts again cancels it; until then no further pod is begun", b.Name, after)
}
