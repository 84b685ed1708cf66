package witness

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// Follow begins to look on at the pods for which mine is true. It returns once it does;
// stop ends it. clock is the controller's. A gap, in which something might have escaped it, is a fault.
func (w *Witness) Follow(ctx context.Context, client kubernetes.Interface, mine func(*corev1.Pod) bool, clock func() time.Time) (stop func(), err error) {
	pods := client.CoreV1().Pods("")
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the pods for the witness: %w", err)
	}
	for i := range list.Items {
		if mine(&list.Items[i]) {
			w.Saw(&list.Items[i], false, clock())
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	revision := list.ResourceVersion
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			watched, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: revision, AllowWatchBookmarks: true})
			if err != nil {
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
				continue
			}
			for event := range watched.ResultChan() {
				pod, ok := event.Object.(*corev1.Pod)
				if err := apierrors.FromObject(event.Object); !ok && apierrors.IsResourceExpired(err) || !ok && apierrors.IsGone(err) {
					w.gap(err.Error())
					cancel()
				}
				if !ok {
					break // goes on from where it was
				}
				revision = pod.ResourceVersion
				if event.Type != watch.Bookmark && mine(pod) {
					w.Saw(pod, event.Type == watch.Deleted, clock())
				}
			}
			watched.Stop()
		}
	}()
	return func() { cancel(); <-done }, nil
}

func (w *Witness) gap(why string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.faults = append(w.faults, "the watch of the pods ended, and what came then was not seen: "+why)
}
