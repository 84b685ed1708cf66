package restore

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// How live reads and writes the label LabelRestoring of namespaces.

func (l *live) marked(ctx context.Context, namespace string) (map[string]string, error) {
	found := map[string]string{}
	kind := corev1.SchemeGroupVersion.WithKind("Namespace")
	if namespace != "" {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		err := l.reader.Get(ctx, types.NamespacedName{Name: namespace}, object)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading namespace %s: %w", namespace, err)
		}
		if err == nil && object.Labels[api.LabelRestoring] == api.RestoringTrue {
			found[namespace] = object.ResourceVersion
		}
		return found, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind("NamespaceList"))
	if err := l.reader.List(ctx, list, client.MatchingLabels{api.LabelRestoring: api.RestoringTrue}); err != nil {
		return nil, fmt.Errorf("listing namespaces with the label %s: %w", api.LabelRestoring, err)
	}
	for i := range list.Items {
		found[list.Items[i].Name] = list.Items[i].ResourceVersion
	}
	return found, nil
}

func (l *live) mark(ctx context.Context, namespace string) error {
	return l.label(ctx, namespace, map[string]any{"labels": map[string]any{api.LabelRestoring: api.RestoringTrue}})
}

func (l *live) unmark(ctx context.Context, namespace, version string) error {
	return l.label(ctx, namespace, map[string]any{"resourceVersion": version, "labels": map[string]any{api.LabelRestoring: nil}})
}

func (l *live) label(ctx context.Context, namespace string, metadata map[string]any) error {
	text, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	target := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := l.writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, text)); err != nil {
		return fmt.Errorf("writing the label %s of namespace %s: %w", api.LabelRestoring, namespace, err)
	}
	return nil
}

// refusedFor tells of an error whether it will come again until somebody changes
// something.
func refusedFor(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }
