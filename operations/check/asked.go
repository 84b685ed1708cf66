package check

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
)

// validName is an error where the namespace that was asked for can be none.
func (c *Cluster) validName() error {
	if c.Namespace == "" {
		return nil
	}
	if why := validation.IsDNS1123Label(c.Namespace); len(why) > 0 {
		return fmt.Errorf("%q is not the name of a namespace: %s", c.Namespace, strings.Join(why, "; "))
	}
	return nil
}

// exists is an error where the cluster has no namespace of the name that was
// asked for. Who may not read it is told by the items, which look at what they may.
func (c *Cluster) exists(ctx context.Context) error {
	if c.Namespace == "" {
		return nil
	}
	if _, err := c.namespaces(ctx); apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no namespace %q in the cluster at %s", c.Namespace, c.Where)
	}
	return nil
}
