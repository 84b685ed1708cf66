package backup

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/scope"
)

// cluster is what the controller reads and writes of the API server.
type cluster interface {
	// From informers, which cost nothing and may lag.
	backup(ctx context.Context, at types.NamespacedName) (*api.Backup, error)
	namespace(ctx context.Context, name string) (labelled, terminating bool, err error)
	// glimpse tells which pod of the name there is; only injected ones are known.
	glimpse(ctx context.Context, at types.NamespacedName) (glimpse, error)

	// From the API server, a request each.
	// going tells whether a namespace is being deleted, or the CustomResourceDefinition
	// with all Backups there are.
	going(ctx context.Context, namespace string) (bool, error)
	current(ctx context.Context, at types.NamespacedName) (*api.Backup, error)
	pod(ctx context.Context, at types.NamespacedName) (*corev1.Pod, error)
	pods(ctx context.Context, namespace string, selector labels.Selector) ([]*corev1.Pod, error)
	// set reads a StatefulSet; nil where there is none.
	set(ctx context.Context, at types.NamespacedName) (*appsv1.StatefulSet, error)

	// Both write if nobody has written the object since it was read, and give it its new
	// resourceVersion.
	writeStatus(ctx context.Context, b *api.Backup) error
	writeFinalizer(ctx context.Context, b *api.Backup, on bool) error
	// writeKeep writes that the data stay.
	writeKeep(ctx context.Context, b *api.Backup) error
}

// glimpse is a pod as the informer has it.
type glimpse struct {
	there   bool
	uid     types.UID
	version string
	leaving bool
}

// live is the cluster by way of clients.
type live struct {
	objects client.Reader // informers of Backups
	cached  client.Reader // informers of injected pods and of namespaces
	reader  client.Reader // not cached
	writer  client.Client
	served  func(groupVersion string) (*metav1.APIResourceList, error) // of discovery
	own     string                                                     // Stategraft's own namespace
}

func (l *live) backup(ctx context.Context, at types.NamespacedName) (*api.Backup, error) {
	b := &api.Backup{}
	return b, l.objects.Get(ctx, at, b)
}

func (l *live) current(ctx context.Context, at types.NamespacedName) (*api.Backup, error) {
	b := &api.Backup{}
	if err := l.reader.Get(ctx, at, b); err != nil {
		return nil, fmt.Errorf("reading Backup %s: %w", at, err)
	}
	return b, nil
}

func (l *live) namespace(ctx context.Context, name string) (labelled, terminating bool, err error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err = l.cached.Get(ctx, types.NamespacedName{Name: name}, object)
	if apierrors.IsNotFound(err) {
		return false, true, nil
	} else if err != nil {
		return false, false, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return scope.Asks(object, l.own), object.DeletionTimestamp != nil, nil
}

// going asks anew: the informer of namespaces may tell later than that of Backups that
// all of a namespace is being deleted. Of a CustomResourceDefinition that goes discovery
// tells, which needs no rights: nothing may be created any more
// (k8s.io/apiextensions-apiserver, customresource_discovery_controller.go).
func (l *live) going(ctx context.Context, name string) (bool, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := l.reader.Get(ctx, types.NamespacedName{Name: name}, object)
	if apierrors.IsNotFound(err) || err == nil && object.DeletionTimestamp != nil {
		return true, nil
	} else if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	list, err := l.served(api.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return true, nil
	} else if err != nil {
		return false, fmt.Errorf("reading whether Backups are served: %w", err)
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == "backups" {
			return !slices.Contains(list.APIResources[i].Verbs, "create"), nil
		}
	}
	return true, nil
}

func (l *live) glimpse(ctx context.Context, at types.NamespacedName) (glimpse, error) {
	pod := &corev1.Pod{}
	err := l.cached.Get(ctx, at, pod)
	if apierrors.IsNotFound(err) {
		return glimpse{}, nil
	} else if err != nil {
		return glimpse{}, fmt.Errorf("reading pod %s of the informer: %w", at, err)
	}
	return glimpse{true, pod.UID, pod.ResourceVersion, pod.DeletionTimestamp != nil}, nil
}

func (l *live) pod(ctx context.Context, at types.NamespacedName) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := l.reader.Get(ctx, at, pod)
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", at, err)
	}
	return pod, nil
}

func (l *live) pods(ctx context.Context, namespace string, selector labels.Selector) (found []*corev1.Pod, err error) {
	var list corev1.PodList
	if err := l.reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", namespace, err)
	}
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int { return natural(a.Name, b.Name) })
	return found, nil
}

func (l *live) set(ctx context.Context, at types.NamespacedName) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	if err := l.reader.Get(ctx, at, set); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading StatefulSet %s: %w", at, err)
	}
	return set, nil
}

func (l *live) writeStatus(ctx context.Context, b *api.Backup) error {
	if err := l.writer.Status().Update(ctx, b); err != nil {
		return fmt.Errorf("writing the status of Backup %s/%s: %w", b.Namespace, b.Name, err)
	}
	return nil
}

// writeFinalizer touches nothing but the finalizers.
func (l *live) writeFinalizer(ctx context.Context, b *api.Backup, on bool) error {
	changed := b.DeepCopy()
	if on {
		controllerutil.AddFinalizer(changed, api.FinalizerBackup)
	} else {
		controllerutil.RemoveFinalizer(changed, api.FinalizerBackup)
	}
	patch := client.MergeFromWithOptions(b.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := l.writer.Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("writing the finalizers of Backup %s/%s: %w", b.Namespace, b.Name, err)
	}
	b.ObjectMeta = changed.ObjectMeta
	return nil
}

// writeKeep gives back the policy that retention has taken, and touches nothing else.
func (l *live) writeKeep(ctx context.Context, b *api.Backup) error {
	changed := b.DeepCopy()
	changed.Spec.DeletionPolicy = api.DeletionKeep
	delete(changed.Annotations, api.AnnotationExpiring)
	patch := client.MergeFromWithOptions(b.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := l.writer.Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("writing that the data of Backup %s/%s stay: %w", b.Namespace, b.Name, err)
	}
	b.ObjectMeta, b.Spec = changed.ObjectMeta, changed.Spec
	return nil
}
