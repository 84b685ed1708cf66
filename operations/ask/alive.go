package ask

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The Lease by which the controllers settle which of them acts, and the namespace
// that it is in unless Stategraft was installed into another one.
const (
	leaseName = "stategraft-controller"
	usualHome = "stategraft"
)

// life is what can be known of the controller.
type life int

const (
	unknown life = iota // nothing may be read
	runs
	dead
)

// controller looks whether one holds the Lease. Who may read it in all namespaces
// learns for sure; most people may not.
func controller(ctx context.Context, c client.Reader, now time.Time) life {
	var all coordinationv1.LeaseList
	if err := c.List(ctx, &all, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", leaseName)}); err == nil {
		for i := range all.Items {
			if all.Items[i].Name == leaseName && held(&all.Items[i], now) {
				return runs
			}
		}
		return dead
	}
	var lease coordinationv1.Lease
	switch err := c.Get(ctx, client.ObjectKey{Namespace: usualHome, Name: leaseName}, &lease); {
	case err != nil: // not found: it may be in another namespace
		return unknown
	case held(&lease, now):
		return runs
	}
	return dead
}

// held allows for clocks that differ by a minute.
func held(lease *coordinationv1.Lease, now time.Time) bool {
	s := &lease.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil {
		return false
	}
	length := time.Minute
	if s.LeaseDurationSeconds != nil {
		length += time.Duration(*s.LeaseDurationSeconds) * time.Second
	}
	return now.Sub(s.RenewTime.Time) < length
}

// Within says that a namespace does not exist, where that is why something in it is
// not found; who may not read namespaces gets the error as it is.
func Within(ctx context.Context, c client.Reader, namespace string, err error) error {
	if err == nil || namespace == "" {
		return err
	}
	if gone := c.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{}); apierrors.IsNotFound(gone) && !notServed(gone) {
		return fmt.Errorf("there is no namespace %q", namespace)
	}
	return err
}

// Idle tells whether no controller runs, as far as who asks may see.
func Idle(ctx context.Context, c client.Reader) bool {
	limited, cancel := context.WithTimeout(ctx, takenUp)
	defer cancel()
	return controller(limited, c, time.Now()) == dead && limited.Err() == nil
}
