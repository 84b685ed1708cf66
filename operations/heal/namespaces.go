package heal

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namespaceOf reads a namespace, of which only the metadata are watched.
func namespaceOf(ctx context.Context, cached client.Reader, name string) (*metav1.PartialObjectMetadata, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := cached.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return object, nil
}

func annotationsOf(ctx context.Context, cached client.Reader, namespace string) (map[string]string, error) {
	object, err := namespaceOf(ctx, cached, namespace)
	if err != nil {
		return nil, err
	}
	return object.Annotations, nil
}
