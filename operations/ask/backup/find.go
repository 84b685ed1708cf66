package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

// ErrNone says that there is no Backup of a name.
var ErrNone = errors.New("there is no Backup")

// Get reads one, by its name or by that in the storage, which restores go by.
func Get(ctx context.Context, c client.Reader, namespace, name string) (*api.Backup, error) {
	found, err := named(ctx, c, namespace, name)
	if err != nil || found != nil {
		return found, err
	}
	list, err := List(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	var same []*api.Backup
	for i := range list.Items {
		if InStorage(&list.Items[i]) == name {
			same = append(same, &list.Items[i])
		}
	}
	switch len(same) {
	case 0:
		return nil, fmt.Errorf("%w %s in namespace %s (kubectl stategraft backup list -n %s has those that there are; kubectl stategraft sync looks for more in the storage)",
			ErrNone, name, namespace, namespace)
	case 1:
		return same[0], nil
	}
	var names []string
	for _, b := range same {
		names = append(names, fmt.Sprintf("%s (prefix %q)", b.Name, ask.Clean(prefixOf(b))))
	}
	return nil, fmt.Errorf("several Backups of namespace %s are %s in the storage: %s; say which by its own name", namespace, name, strings.Join(names, ", "))
}

// named reads the Backup of a name; nil where there is none.
func named(ctx context.Context, c client.Reader, namespace, name string) (*api.Backup, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 { // no object is called that
		return nil, nil
	}
	b := &api.Backup{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, b)
	if err == nil {
		return b, nil
	}
	explained := ask.Explain(err, "get", ask.Backups, namespace, name)
	if apierrors.IsNotFound(err) && !errors.Is(explained, ask.ErrNotServed) {
		return nil, nil
	}
	return nil, explained
}

// InStorage is the backup's name in the storage; empty before it has one.
func InStorage(b *api.Backup) string {
	switch {
	case b.Status.Name != "":
		return b.Status.Name
	case b.Found():
		return b.Spec.Existing.Name
	}
	return ""
}

func prefixOf(b *api.Backup) string {
	if b.Found() {
		return b.Spec.Existing.Prefix
	}
	return b.Status.Prefix
}

// Restorable is the Backup that a restore asks for by the name of the object; nil where
// it asks for something else, or Backups cannot be read: the name is one of the storage
// then. The error tells why it cannot be restored.
func Restorable(ctx context.Context, c client.Reader, request *ask.Request) (*api.Backup, error) {
	name := request.Backup
	if _, err := time.Parse(time.RFC3339, name); err == nil || name == "" || name == api.BackupLatest {
		return nil, nil
	}
	b, err := named(ctx, c, request.Namespace, name)
	if err != nil || b == nil || elsewhere(b, request) {
		return nil, nil
	}
	switch {
	case !b.DeletionTimestamp.IsZero() && !b.Keeps():
		return nil, fmt.Errorf("the Backup %s is being deleted, and its data", name)
	case b.Spec.DryRun, InStorage(b) == "", !b.Found() && !b.Status.Phase.Final() && b.DeletionTimestamp.IsZero():
		return nil, fmt.Errorf("the Backup %s is nothing to restore yet (%s): kubectl stategraft backup show %s", name, Stands(b), path(b))
	}
	return b, nil
}

// elsewhere tells whether the backup that is asked for is below another prefix.
func elsewhere(b *api.Backup, request *ask.Request) bool {
	prefix := prefixOf(b)
	switch {
	case request.Prefix != nil:
		return *request.Prefix != prefix
	case request.Cluster != "":
		namespace, cluster, _ := strings.Cut(request.Cluster, "/")
		return node.Prefix(namespace, cluster) != prefix
	}
	return false
}
