package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	sweepEvery = 5 * time.Minute
	// young is a pod that may be of what is being written just now.
	young = time.Minute
)

// sweeper deletes the pods of restores on trial that no verification is about: of a
// controller that ended after it had written what one has found.
type sweeper struct {
	*world
	clock func() time.Time
	log   logr.Logger
}

// Start sweeps until the context ends.
func (s *sweeper) Start(ctx context.Context) error {
	for {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Error(err, "looking for pods of restores on trial that are left over")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(sweepEvery):
		}
	}
}

func (s *sweeper) sweep(ctx context.Context) error {
	pods, err := s.ours(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for i := range pods {
		pod := &pods[i]
		if s.clock().Sub(pod.CreationTimestamp.Time) < young {
			continue
		}
		over, err := s.over(ctx, pod)
		if err == nil && over {
			s.log.Info("deleting a pod that no restore on trial is about", "namespace", pod.Namespace, "pod", pod.Name)
			err = s.remove(ctx, pod)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// over tells whether a pod, which is of a Backup, serves no more. Others' pods with our
// label are left alone.
func (s *sweeper) over(ctx context.Context, pod *corev1.Pod) (bool, error) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "Backup" {
		return false, nil
	}
	b, err := s.backup(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Backup %s/%s: %w", pod.Namespace, owner.Name, err)
	}
	return b.UID != owner.UID || !running(b) || podName(b) != pod.Name, nil
}
