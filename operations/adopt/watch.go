package adopt

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// source has the pods of some namespaces.
type source interface {
	// keep has the pods of these namespaces watched and of no others, and tells whether all
	// that are there are known.
	keep(ctx context.Context, namespaces map[string]bool) (known bool, err error)
	// pods lists those of a namespace that is kept. They are slim, and not to be changed.
	pods(namespace string) []*corev1.Pod
	// stop ends all watches.
	stop()
}

// watches watches the pods of the namespaces in which anybody asks for adoption, each by
// itself: elsewhere there may be tens of thousands that are none of our business.
type watches struct {
	client  corev1client.CoreV1Interface
	changed func() // must not wait

	running map[string]*watched
	wait    sync.WaitGroup
}

type watched struct {
	informer toolscache.SharedInformer
	cancel   context.CancelFunc
}

func (w *watches) keep(ctx context.Context, namespaces map[string]bool) (bool, error) {
	for name, is := range w.running {
		if !namespaces[name] {
			is.cancel()
			delete(w.running, name)
		}
	}
	known := true
	for name := range namespaces {
		is := w.running[name]
		if is == nil {
			var err error
			if is, err = w.watch(ctx, name); err != nil {
				return false, err
			}
			w.running[name] = is
		}
		known = known && is.informer.HasSynced()
	}
	return known, nil
}

func (w *watches) pods(namespace string) (pods []*corev1.Pod) {
	is := w.running[namespace]
	if is == nil {
		return nil
	}
	for _, object := range is.informer.GetStore().List() {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

// watch watches the pods of a namespace until the context ends or the watch is cancelled.
// Pods that have ended are nothing to adopt.
func (w *watches) watch(ctx context.Context, namespace string) (*watched, error) {
	running := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed))).String()
	pods := w.client.Pods(namespace)
	informer := toolscache.NewSharedInformer(toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = running
			return pods.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = running
			return pods.Watch(ctx, options)
		},
	}, w.client), &corev1.Pod{}, 0)
	transform := func(object any) (any, error) {
		if pod, ok := object.(*corev1.Pod); ok {
			return slim(pod), nil
		}
		return object, nil // a cache.DeletedFinalStateUnknown holds what was slim before
	}
	if err := informer.SetTransform(transform); err != nil {
		return nil, fmt.Errorf("watching the pods of namespace %s: %w", namespace, err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.changed() },
		UpdateFunc: func(before, after any) {
			was, ok := before.(*corev1.Pod)
			is, too := after.(*corev1.Pod)
			if !ok || !too || !same(was, is) {
				w.changed()
			}
		},
		DeleteFunc: func(any) { w.changed() },
	}); err != nil {
		return nil, fmt.Errorf("watching the pods of namespace %s: %w", namespace, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	w.wait.Go(func() { informer.RunWithContext(ctx) })
	return &watched{informer: informer, cancel: cancel}, nil
}

func (w *watches) stop() {
	for name, is := range w.running {
		is.cancel()
		delete(w.running, name)
	}
	w.wait.Wait()
}
