package adopt

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/adopt/simulated"
)

// A container whose image or Secret is missing waits, and is not followed by another; the
// other pods of its workload, but not those of others, wait for it. Once it is there, all
// are adopted, still with one round each.
func TestWaits(t *testing.T) {
	t.Parallel()
	ctx, e := start(t, 20*time.Minute)
	const prefix, each = "waits-", 3
	w, stop, err := e.Witness(ctx, prefix, usual(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var pulled atomic.Bool
	noImage := func(_ *corev1.Pod, c *corev1.EphemeralContainer) simulated.Play {
		if strings.HasPrefix(c.Name, "stategraft-medusa") && !pulled.Load() {
			return simulated.Play{Waits: "ImagePullBackOff"}
		}
		return simulated.Play{}
	}
	var image, secret, well *Town
	defer func() { look(ctx, t, w, stop, compact(image, secret, well)...) }()
	if image, err = e.Settle(ctx, prefix+"image", simulated.Played{Node: spread, Script: noImage}, Cassandra("ring", each)); err != nil {
		t.Fatal(err)
	}
	if secret, err = e.Found(ctx, prefix+"secret", nil, simulated.Played{Node: spread}); err != nil {
		t.Fatal(err)
	}
	if err := secret.Run(ctx, Cassandra("ring", each)); err != nil {
		t.Fatal(err)
	}
	if well, err = e.Settle(ctx, prefix+"well", simulated.Played{Node: spread}, Cassandra("ring", each)); err != nil {
		t.Fatal(err)
	}
	for _, town := range []*Town{image, secret, well} {
		if err := town.Label(ctx, api.AdoptRunning); err != nil {
			t.Fatal(err)
		}
	}
	up := func(namespace string) error {
		return await(ctx, 4*time.Minute, "the pods of "+namespace+" to be adopted", func(context.Context) (bool, error) {
			got := w.Of(namespace)
			if got.Up != each {
				return false, fmt.Errorf("%d of %d are", got.Up, each)
			}
			return true, nil
		})
	}
	if err := up(well.Namespace); err != nil {
		t.Fatal(err)
	}
	waited := lull()
	if full() {
		waited = 2 * time.Minute
	}
	for _, town := range []*Town{image, secret} {
		if err := await(ctx, 2*time.Minute, "a pod of "+town.Namespace+" to be given containers", func(context.Context) (bool, error) {
			return w.Of(town.Namespace).Rounds > 0, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	pause(ctx, waited)
	for _, town := range []*Town{image, secret} {
		if got := w.Of(town.Namespace); got.Rounds != 1 || got.Up != 0 {
			t.Errorf("%s: %d rounds and %d pods up while it is missing, want 1 and 0", town.Namespace, got.Rounds, got.Up)
		}
	}
	pulled.Store(true)
	if err := secret.Configure(ctx); err != nil {
		t.Fatal(err)
	}
	for _, town := range []*Town{image, secret} {
		if err := up(town.Namespace); err != nil {
			t.Fatal(err)
		}
		if got := w.Of(town.Namespace); got.Rounds != each {
			t.Errorf("%s: %d rounds for %d pods", town.Namespace, got.Rounds, each)
		}
	}
	figure(t, "1 round each while the image and the Secret were missing for %s, then adopted by that one; another workload was adopted meanwhile", waited)
}

func compact(towns ...*Town) (there []*Town) {
	for _, town := range towns {
		if town != nil {
			there = append(there, town)
		}
	}
	return there
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
