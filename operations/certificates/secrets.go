package certificates

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// fieldOwner names us to the API server as the writer of fields.
const fieldOwner = client.FieldOwner("stategraft-controller")

// Every Secret that we create in a user's namespace has this label, which tells
// it from another's of the same name.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "stategraft"
)

// ours tells whether a Secret was made by us.
func ours(secret *corev1.Secret) bool { return secret.Labels[labelManagedBy] == managedBy }

// readSecret answers nil for a Secret that is not there.
func readSecret(ctx context.Context, reader client.Reader, key client.ObjectKey) (*corev1.Secret, error) {
	var secret corev1.Secret
	if err := reader.Get(ctx, key, &secret); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", key, err)
	}
	return &secret, nil
}

// kind is what a Secret is where we have to create it.
type kind struct {
	secretType corev1.SecretType
	labels     map[string]string
}

var (
	// inUse is a pair in a user's namespace.
	inUse = kind{corev1.SecretTypeTLS, map[string]string{
		labelManagedBy: managedBy, "app.kubernetes.io/name": "stategraft", "app.kubernetes.io/part-of": api.Group}}
	// installed is one that comes with the installation and that somebody has
	// deleted: the next upgrade has to find the type that it expects, and no label
	// that is not its own.
	installed = kind{corev1.SecretTypeOpaque, nil}
)

// writeSecret makes a Secret hold exactly the data, and creates it where there is
// none (nil). It tells whether it wrote. Whatever else is on a Secret stays as it
// is: labels are the installer's too. What another wrote since it was read makes
// it fail with a conflict.
func writeSecret(ctx context.Context, writer client.Client, key client.ObjectKey, secret *corev1.Secret, as kind, data map[string][]byte) (bool, error) {
	if secret == nil {
		create := corev1apply.Secret(key.Name, key.Namespace).WithType(as.secretType).WithLabels(as.labels).WithData(data)
		if err := writer.Apply(ctx, create, fieldOwner); err != nil {
			return false, fmt.Errorf("creating secret %s: %w", key, err)
		}
		return true, nil
	}
	if maps.EqualFunc(secret.Data, data, bytes.Equal) {
		return false, nil
	}
	changed := secret.DeepCopy() // it may be an informer's
	changed.Data = data
	if err := writer.Update(ctx, changed, fieldOwner); err != nil {
		return false, fmt.Errorf("writing secret %s: %w", key, err)
	}
	return true, nil
}

// passing tells whether an error goes away by itself: somebody else was quicker,
// or the namespace is being removed.
func passing(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || terminating(err)
}

// terminating tells whether an object could not be made since its namespace is
// being removed, or gone.
func terminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err)
}
