package adopt

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/adopt/simulated"
	"github.com/stategraft/stategraft/test/adopt/witness"
	"github.com/stategraft/stategraft/test/cluster"
)

// The API server is restarted while pods are adopted, again and again: no pod gets a container
// twice, also where an answer was lost, and all are adopted.
func TestAdoptAPIServerRestarted(t *testing.T) {
	if !full() {
		t.Skipf("what was not answered is tried again after 30 s: set %s=full", ScaleEnv)
	}
	ctx, e := start(t, 10*time.Minute)
	const namespace, workloads, each, restarts = "restarted", 20, 3, 3
	w, again := witness.New(usual(), nil), func() {}
	follow := func() {
		t.Helper()
		if err := await(ctx, time.Minute, "the witness to follow", func(ctx context.Context) (bool, error) {
			stop, err := w.Follow(ctx, e.Client, func(p *corev1.Pod) bool { return p.Namespace == namespace }, simulated.Clock(nil).Now)
			if err == nil {
				again = stop
			}
			return err == nil, err
		}); err != nil {
			t.Fatal(err)
		}
	}
	follow()
	var town *Town
	defer func() { look(ctx, t, w, func() { again() }, compact(town)...) }()
	town, err := e.Settle(ctx, namespace, simulated.Played{Node: spread, Script: slowly}, rings(workloads, each)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := town.Label(ctx, api.AdoptRunning); err != nil {
		t.Fatal(err)
	}
	pods, had := workloads*each, 0
	for i := range restarts {
		if err := until(ctx, w, namespace, had+4); err != nil {
			t.Fatal(err)
		}
		if had = w.Of(namespace).Rounds; had == pods {
			t.Fatalf("all of %d pods had their round: nothing is in the middle at restart %d", pods, i+1)
		}
		// What is written from now on until it follows anew is seen in one piece. Containers
		// are never removed, so two rounds of a pod would show.
		again()
		if err := e.Restart(ctx, cluster.APIServer); err != nil && !strings.Contains(err.Error(), "ended (") {
			t.Fatal(err)
		}
		follow()
	}
	// Those of the control plane's that may have given up meanwhile are for the other tests.
	for _, component := range []string{cluster.ControllerManager, cluster.Scheduler} {
		if err := e.Restart(ctx, component); err != nil {
			t.Fatal(err)
		}
	}
	if err := until(ctx, w, namespace, pods); err != nil {
		t.Fatal(err)
	}
	if err := town.labelled(ctx); err != nil {
		t.Fatal(err)
	}
	pause(ctx, lull())
	if got := w.Of(namespace); got.Rounds != pods || got.Containers != 3*pods || got.Up != pods {
		t.Errorf("%+v, want one round with 3 containers for each of %d pods", got, pods)
	}
	most := w.Most()
	figure(t, "%d pods, the API server restarted %d times in the middle: one round each; at most %d of a workload, %d on a node, %d in all",
		pods, restarts, most.PerWorkload, most.PerNode, most.InAll)
}

// until waits until so many rounds were added.
func until(ctx context.Context, w *witness.Witness, namespace string, rounds int) error {
	return await(ctx, 4*time.Minute, fmt.Sprintf("%d rounds in %s", rounds, namespace), func(context.Context) (bool, error) {
		if got := w.Of(namespace).Rounds; got < rounds {
			return false, fmt.Errorf("%d so far", got)
		}
		return true, nil
	})
}
