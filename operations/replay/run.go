package replay

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
)

const (
	askedAtOnce = 16
	askLimit    = 4 * time.Second
)

// Start implements manager.Runnable. It ends with the context, and never fails: databases
// are looked after otherwise, too.
func (r *runner) Start(ctx context.Context) error {
	told := ""
	for {
		err := r.look(ctx)
		switch {
		case err == nil:
			told = ""
		case ctx.Err() == nil && err.Error() != told:
			told = err.Error()
			r.log.Error(err, "nodes that were restored cannot be seen to be Ready")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(r.every):
		}
	}
}

// look looks at all pods that may wait.
func (r *runner) look(ctx context.Context) error {
	var list corev1.PodList
	if err := r.cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the injected pods: %w", err)
	}
	there := map[types.UID]bool{}
	var waiting []types.NamespacedName
	for i := range list.Items {
		pod := &list.Items[i]
		there[pod.UID] = true
		if kvs.Of(pod) && !kvs.Idle(pod) && !ready(pod) && pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" && !r.without[pod.UID] {
			waiting = append(waiting, client.ObjectKeyFromObject(pod))
		}
	}
	for uid := range r.without {
		if !there[uid] {
			delete(r.without, uid)
		}
	}
	var mu sync.Mutex // of r.without
	var group sync.WaitGroup
	slots := make(chan struct{}, askedAtOnce)
	for _, name := range waiting {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			uid, gated, err := r.one(ctx, name)
			if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				r.log.Info("a restored node is not seen to", "pod", name.String(), "error", err.Error())
			}
			if err == nil && !gated {
				mu.Lock()
				r.without[uid] = true
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return nil
}

// one looks at a pod. It tells whether that has the gate.
func (r *runner) one(ctx context.Context, name types.NamespacedName) (uid types.UID, has bool, err error) {
	pod := &corev1.Pod{}
	if err := r.live.Get(ctx, name, pod); err != nil {
		return "", false, fmt.Errorf("reading pod %s: %w", name, err)
	}
	if !gated(pod) {
		return pod.UID, false, nil
	}
	if is := conditionOf(pod); pod.DeletionTimestamp != nil || is != nil && is.Status == corev1.ConditionTrue {
		return pod.UID, true, nil
	}
	restore, err := r.restoreOf(ctx, pod)
	if err != nil {
		return pod.UID, true, err
	}
	asking, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var a answer
	a.report, a.err = r.nodes.Report(asking, pod)
	return pod.UID, true, r.write(ctx, pod, judge(pod, restore, a))
}

// restoreOf reads the Restore that asked; nil where there is none.
func (r *runner) restoreOf(ctx context.Context, pod *corev1.Pod) (*api.Restore, error) {
	want, ok := askedOf(pod)
	if !ok || want.id == "" {
		return nil, nil
	}
	restore := &api.Restore{}
	err := r.live.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: want.restoreOf()}, restore)
	switch {
	case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err): // else the kind is not served
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Restore %s/%s: %w", pod.Namespace, want.restoreOf(), err)
	}
	return restore, nil
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
