package backup

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/operations/sidecar"
)

// asker is what pods are asked, each in a conversation of its own.
type asker interface {
	Report(ctx context.Context, pod *corev1.Pod) (node.Report, error)
	Backup(ctx context.Context, pod *corev1.Pod, prefix, name string) (node.Backup, error)
	Discard(ctx context.Context, pod *corev1.Pod, prefix, name string) error
	Status(ctx context.Context, pod *corev1.Pod, name string) (sidecar.Phase, error)
	Begin(ctx context.Context, pod *corev1.Pod, name string, full bool) error
}

// talks is an asker by way of sidecars. So many are asked at a time at the most, over
// all Backups: each takes a connection and its goroutines.
type talks struct {
	sidecars Sidecars
	slots    chan struct{}
}

func (t *talks) slot(ctx context.Context) (func(), error) {
	select {
	case t.slots <- struct{}{}:
		return func() { <-t.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (t *talks) Report(ctx context.Context, pod *corev1.Pod) (r node.Report, err error) {
	done, err := t.slot(ctx)
	if err != nil {
		return r, err
	}
	defer done()
	return t.sidecars.Report(ctx, pod)
}

func (t *talks) Backup(ctx context.Context, pod *corev1.Pod, prefix, name string) (b node.Backup, err error) {
	done, err := t.slot(ctx)
	if err != nil {
		return b, err
	}
	defer done()
	return t.sidecars.Backup(ctx, pod, prefix, name)
}

func (t *talks) Discard(ctx context.Context, pod *corev1.Pod, prefix, name string) error {
	done, err := t.slot(ctx)
	if err != nil {
		return err
	}
	defer done()
	return t.sidecars.Discard(ctx, pod, prefix, name)
}

func (t *talks) Status(ctx context.Context, pod *corev1.Pod, name string) (p sidecar.Phase, err error) {
	err = t.talk(ctx, pod, func(m *sidecar.Medusa) error {
		p, err = m.Status(ctx, name)
		return err
	})
	return p, err
}

// errNotAsked says that a sidecar has heard nothing of what it was to be asked.
var errNotAsked = errors.New("the sidecar was not asked")

func (t *talks) Begin(ctx context.Context, pod *corev1.Pod, name string, full bool) error {
	asked := false
	err := t.talk(ctx, pod, func(m *sidecar.Medusa) error {
		asked = true
		return m.Begin(ctx, name, full)
	})
	if err != nil && !asked {
		return &notAsked{err}
	}
	return err
}

// notAsked is an error that is errNotAsked, and reads as it did.
type notAsked struct{ error }

func (e *notAsked) Is(target error) bool { return target == errNotAsked }
func (e *notAsked) Unwrap() error        { return e.error }

func (t *talks) talk(ctx context.Context, pod *corev1.Pod, say func(m *sidecar.Medusa) error) error {
	done, err := t.slot(ctx)
	if err != nil {
		return err
	}
	defer done()
	m, err := t.sidecars.Medusa(ctx, pod)
	if err != nil {
		return err
	}
	return errors.Join(say(m), m.Close())
}
