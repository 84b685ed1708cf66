package deploy_test

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// ofNamespaces are the requests of TestRightsOnServer that write namespaces: db is
// labelled, in db2 a Restore is said to be under way, bare asks for nothing.
func ofNamespaces(hook, controller, admin kubernetes.Interface, db, db2, bare string) map[string]asked {
	return map[string]asked{
		"say that a Restore is under way":  {patchNamespace(controller, db, `{"metadata":{"labels":{"stategraft.io/restoring":"true"}}}`), granted},
		"say that none is":                 {patchNamespace(controller, db2, `{"metadata":{"labels":{"stategraft.io/restoring":null}}}`), granted},
		"say something else":               {patchNamespace(controller, db, `{"metadata":{"labels":{"stategraft.io/restoring":"false"}}}`), byPolicy},
		"another label":                    {patchNamespace(controller, db, `{"metadata":{"labels":{"stategraft.io/restoring":"true","pod-security.kubernetes.io/enforce":"privileged"}}}`), byPolicy},
		"a label's value":                  {patchNamespace(controller, db, `{"metadata":{"labels":{"stategraft.io/inject":"disabled"}}}`), byPolicy},
		"a label off":                      {patchNamespace(controller, db, `{"metadata":{"labels":{"stategraft.io/inject":null}}}`), byPolicy},
		"a label of a bare namespace":      {patchNamespace(controller, bare, `{"metadata":{"labels":{"stategraft.io/inject":"enabled"}}}`), byPolicy},
		"a namespace's annotation":         {patchNamespace(controller, db, `{"metadata":{"annotations":{"a":"b"}}}`), byPolicy},
		"a namespace's finalizer":          {patchNamespace(controller, db, `{"metadata":{"finalizers":["example.com/x"]}}`), byPolicy},
		"a namespace's owner":              {patchNamespace(controller, db, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]}}`), byPolicy},
		"delete a namespace":               {deleteNamespace(controller, bare), byRole},
		"webhook: label a namespace":       {patchNamespace(hook, db, `{"metadata":{"labels":{"stategraft.io/restoring":"true"}}}`), byRole},
		"administrator: label a namespace": {patchNamespace(admin, db, `{"metadata":{"labels":{"a":"b"}}}`), granted},
	}
}

func patchNamespace(c kubernetes.Interface, name, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun})
		return err
	}
}

func deleteNamespace(c kubernetes.Interface, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return c.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{DryRun: dryRun})
	}
}
