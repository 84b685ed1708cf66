// Package lookup makes pods that look into the storage of the backups where no
// sidecar answers: what has a restore asked for is often a database that does not
// start, and with it its pods are Pending or gone.
//
//	lookup.go   making such a pod, waiting for it, removing it
//	pod.go      what it is like; pure
//	trouble.go  why it does not run yet; pure
package lookup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// NamePrefix is what the names of these pods begin with. The policy
// controller-creates.stategraft.io lets our controller create no others.
const NamePrefix = "stategraft-lookup-"

// LabelLookup stands on these pods, and has the name's hash.
const LabelLookup = api.LabelLookup

// ErrStarting says that the pod cannot be asked yet; the text around it says why.
var ErrStarting = errors.New("the pod that looks into the storage is starting")

// ErrNotLike says that no such pod can be made after the one that was given.
var ErrNotLike = errors.New("the pod has no sidecar to make another after")

// Reporter asks a pod whether it answers; operations/sidecar has one.
type Reporter interface {
	Report(ctx context.Context, pod *corev1.Pod) (node.Report, error)
}

// Lookups makes and removes the pods. The zero value is of no use.
type Lookups struct {
	writer client.Client
	live   client.Reader // the manager's cache has injected pods only
	nodes  Reporter      // nil: a pod that runs is taken to answer
}

// New makes Lookups. Pods are read from the API server itself.
func New(writer client.Client, live client.Reader, nodes Reporter) *Lookups {
	return &Lookups{writer: writer, live: live, nodes: nodes}
}

// Name is the name of a Restore's pod. Another Restore of the name has another.
func Name(owner *api.Restore) string {
	sum := sha256.Sum256([]byte(owner.Namespace + "/" + owner.Name + "/" + string(owner.UID)))
	return NamePrefix + hex.EncodeToString(sum[:5])
}

// Pod makes a pod for a Restore after one that is injected, or finds the one that
// was made, and gives it once it answers. Until then the error is ErrStarting. One
// that has ended, by its deadline or otherwise, is made anew.
func (l *Lookups) Pod(ctx context.Context, like *corev1.Pod, owner *api.Restore) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	key := types.NamespacedName{Namespace: owner.Namespace, Name: Name(owner)}
	switch err := l.live.Get(ctx, key, pod); {
	case apierrors.IsNotFound(err):
		return nil, l.create(ctx, like, owner)
	case err != nil:
		return nil, fmt.Errorf("reading pod %s: %w", key, err)
	}
	if pod.DeletionTimestamp != nil {
		return nil, fmt.Errorf("%w: waits for the one before to be gone", ErrStarting)
	}
	if !metav1.IsControlledBy(pod, owner) {
		return nil, fmt.Errorf("pod %s is somebody else's; delete it, or choose another name for the Restore", key)
	}
	if why := ended(pod); why != "" {
		if err := l.remove(ctx, pod); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s; it is made anew", ErrStarting, why)
	}
	if why := holdup(pod); why != "" {
		return nil, fmt.Errorf("%w: %s", ErrStarting, why)
	}
	if l.nodes != nil {
		if _, err := l.nodes.Report(ctx, pod); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrStarting, err)
		}
	}
	return pod, nil
}

func (l *Lookups) create(ctx context.Context, like *corev1.Pod, owner *api.Restore) error {
	pod, err := build(like, owner)
	if err != nil {
		return err
	}
	if err := l.writer.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	text := "it was created just now"
	if why := Identity(like); why != "" {
		text += "; " + why
	}
	return fmt.Errorf("%w: %s", ErrStarting, text)
}

// Remove deletes the pod of a Restore, if there is one. It goes with the Restore
// anyway.
func (l *Lookups) Remove(ctx context.Context, owner *api.Restore) error {
	pod := &corev1.Pod{}
	key := types.NamespacedName{Namespace: owner.Namespace, Name: Name(owner)}
	if err := l.live.Get(ctx, key, pod); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading pod %s: %w", key, err)
	}
	if !metav1.IsControlledBy(pod, owner) || pod.DeletionTimestamp != nil {
		return nil
	}
	return l.remove(ctx, pod)
}

func (l *Lookups) remove(ctx context.Context, pod *corev1.Pod) error {
	err := l.writer.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // another one of the name
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
