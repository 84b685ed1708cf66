package simulated

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// followed is what is listed and watched.
type followed[T any] struct {
	list  func(context.Context, metav1.ListOptions) (items []T, revision string, err error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	all   func([]T) // all that there is, at the start and after each interruption
	one   func(item T, gone bool)
}

// follow keeps up with a kind of object until the context ends. After an interruption
// it is back at once: an informer waits for up to a minute after a restart of the API
// server, and with it would everything that is tested.
func follow[T any](ctx context.Context, f followed[T]) {
	for ctx.Err() == nil {
		items, revision, err := f.list(ctx, metav1.ListOptions{})
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		f.all(items)
		w, err := f.watch(ctx, metav1.ListOptions{ResourceVersion: revision})
		if err != nil {
			continue
		}
		for event := range w.ResultChan() {
			if item, ok := event.Object.(any).(T); ok {
				f.one(item, event.Type == watch.Deleted)
			}
		}
		w.Stop()
	}
}

// pointers are those to the elements of a list.
func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}
