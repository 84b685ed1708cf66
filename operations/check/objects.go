package check

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// eachOf reads our objects of a kind, in the namespace that was asked for or in all.
// One that cannot be decoded is an error, after all others.
func eachOf[T any](ctx context.Context, c *Cluster, of schema.GroupVersionResource, each func(*T)) error {
	client := c.Dynamic.Resource(of).Namespace(c.Namespace)
	var broken error
	err := pages(func(o metav1.ListOptions) ([]unstructured.Unstructured, string, error) {
		list, err := client.List(ctx, o)
		if err != nil {
			return nil, "", unread(err, right{Verb: "list", Group: api.Group, Resource: of.Resource, Namespace: c.Namespace})
		}
		return list.Items, list.GetContinue(), nil
	}, metav1.ListOptions{}, func(u *unstructured.Unstructured) {
		object := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
			broken = fmt.Errorf("reading %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
			return
		}
		each(object)
	})
	if err == nil {
		err = broken
	}
	return err
}
