// Package sync has the controller look into the storage of a namespace's clusters now,
// and tells what it found: what kubectl stategraft sync does. It asks on the ConfigMap
// that the controller keeps there (operations/catalogue), and reads the answer from it.
package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/scope"
)

// Namespaces are the names of those that carry our label.
func Namespaces(ctx context.Context, c client.Reader) ([]string, error) {
	var list corev1.NamespaceList
	if err := c.List(ctx, &list, client.MatchingLabels{api.LabelInject: api.InjectEnabled}); err != nil {
		return nil, ask.Explain(err, "list", ask.Namespaces, "", "")
	}
	var names []string
	for i := range list.Items {
		if ns := &list.Items[i]; scope.Asks(ns, "") && ns.DeletionTimestamp.IsZero() {
			names = append(names, ns.Name)
		}
	}
	return names, nil
}

// notLabelled says that nobody looks into the storage of a namespace.
func notLabelled(namespace string) error {
	return fmt.Errorf("namespace %[1]s does not have the label %[2]s=%[3]s, so nobody looks into its storage: kubectl label namespace %[1]s %[2]s=%[3]s",
		namespace, api.LabelInject, api.InjectEnabled)
}

// Ask asks for a look at the storage of a namespace's clusters, with a value that
// nobody has asked with before. Where it is seen that nobody looks it asks for nothing.
func Ask(ctx context.Context, c client.Client, namespace, value string) error {
	var ns corev1.Namespace
	if err := c.Get(ctx, client.ObjectKey{Name: namespace}, &ns); err == nil && !scope.Asks(&ns, "") {
		return notLabelled(namespace)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{api.AnnotationSync: value}}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	catalogue := &corev1.ConfigMap{}
	catalogue.Namespace, catalogue.Name = namespace, api.ConfigMapCatalogue
	err = c.Patch(ctx, catalogue, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		return missing(ctx, c, namespace, err)
	}
	return ask.Explain(err, "patch", ask.ConfigMaps, namespace, api.ConfigMapCatalogue)
}

// missing says why there is no ConfigMap, and what to do.
func missing(ctx context.Context, c client.Reader, namespace string, err error) error {
	check := "does the controller run, and is it of a version that knows Backups? kubectl stategraft check tells"
	var ns corev1.Namespace
	switch gone := c.Get(ctx, client.ObjectKey{Name: namespace}, &ns); {
	case gone != nil:
		if err := ask.Within(ctx, c, namespace, err); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	case !scope.Asks(&ns, ""):
		return notLabelled(namespace)
	default:
		return fmt.Errorf("there is no ConfigMap %s in namespace %s, which the controller makes: %s", api.ConfigMapCatalogue, namespace, check)
	}
	return fmt.Errorf("there is no ConfigMap %s in namespace %s, which the controller makes in those with the label %s=%s: %s",
		api.ConfigMapCatalogue, namespace, api.LabelInject, api.InjectEnabled, check)
}

// Waiter waits for answers.
type Waiter struct {
	Client client.Client
	Every  time.Duration     // between looks; 0 for a second
	Note   func(text string) // is told what is still to be looked at, and that nobody seems to look
}

// After how long without an answer it is looked whether a controller is there.
const unanswered = 30

// Wait waits until what Ask has asked with the value is answered, and gives the
// documents. Where somebody else has asked since, their answer is a later look.
func (w *Waiter) Wait(ctx context.Context, namespace, value string) ([]Document, error) {
	every := w.Every
	if every == 0 {
		every = time.Second
	}
	said := ""
	for looks := 1; ; looks++ {
		catalogue := &corev1.ConfigMap{}
		err := w.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: api.ConfigMapCatalogue}, catalogue)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("the ConfigMap %s of namespace %s was deleted; ask again", api.ConfigMapCatalogue, namespace)
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return nil, ask.Explain(err, "get", ask.ConfigMaps, namespace, api.ConfigMapCatalogue)
		case err == nil && answered(catalogue, value):
			return Documents(catalogue), nil
		case err == nil:
			if text := pending(Documents(catalogue)); text != "" && text != said {
				said = text
				w.Note(text)
			}
		}
		if looks == unanswered && said == "" && ask.Idle(ctx, w.Client) {
			w.Note("no controller seems to act on it: see kubectl stategraft check")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(every):
		}
	}
}

// answered tells whether the answer is there: to the value, or to one that has taken
// its place.
func answered(catalogue *corev1.ConfigMap, value string) bool {
	synced, asked := catalogue.Annotations[api.AnnotationSynced], catalogue.Annotations[api.AnnotationSync]
	return synced == value || asked != value && asked != "" && synced == asked
}

// pending says how many backups are still looked into.
func pending(all []Document) string {
	n := 0
	for _, d := range all {
		n += d.Pending
	}
	if n == 0 {
		return ""
	}
	return ask.Plural(n, "backup") + " of the storage still to be looked into"
}
