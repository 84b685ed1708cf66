package adopt

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/adopt/simulated"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
)

// Of two controllers the one that leads is killed while it adopts, again and again: the other
// takes over when the lease has run out, no pod gets a container twice, and all are adopted.
func TestAdoptLeaderKilled(t *testing.T) {
	if !full() {
		t.Skipf("each lease is waited for: set %s=full", ScaleEnv)
	}
	ctx, e := start(t, 10*time.Minute)
	const namespace, workloads, each, kills = "leaders", 20, 3, 2
	w, stop, err := e.Witness(ctx, namespace, usual(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var town *Town
	defer func() { look(ctx, t, w, stop, compact(town)...) }()
	if town, err = e.Settle(ctx, namespace, simulated.Played{Node: spread, Script: slowly}, rings(workloads, each)...); err != nil {
		t.Fatal(err)
	}
	leader, other, end, err := e.two(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}()
	if err := town.Label(ctx, api.AdoptRunning); err != nil {
		t.Fatal(err)
	}
	pods, had, longest := workloads*each, 0, time.Duration(0)
	for i := range kills {
		if err := until(ctx, w, namespace, had+4); err != nil {
			t.Fatal(err)
		}
		if had = w.Of(namespace).Rounds; had == pods {
			t.Fatalf("all of %d pods had their round: nothing is in the middle at kill %d", pods, i+1)
		}
		before, err := e.leader(ctx)
		if err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := await(ctx, time.Minute, "another leader", func(ctx context.Context) (bool, error) {
			now, err := e.leader(ctx)
			return now != "" && now != before, err
		}); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(killed))
		if err := leader.Start(ctx); err != nil { // which stands by from now on
			t.Fatal(err)
		}
		leader, other = other, leader
	}
	if err := town.labelled(ctx); err != nil {
		t.Fatal(err)
	}
	pause(ctx, lull())
	if got := w.Of(namespace); got.Rounds != pods || got.Containers != 3*pods || got.Up != pods {
		t.Errorf("%+v, want one round with 3 containers for each of %d pods", got, pods)
	}
	most := w.Most()
	figure(t, "%d pods, the leader of two controllers killed %d times in the middle: one round each, the other led after %s at most; at most %d of a workload, %d on a node, %d in all",
		pods, kills, longest.Round(time.Second), most.PerWorkload, most.PerNode, most.InAll)
}

func rings(workloads, each int) (sets []*appsv1.StatefulSet) {
	for i := range workloads {
		sets = append(sets, Cassandra(fmt.Sprintf("ring-%02d", i), each))
	}
	return sets
}

// two runs two controllers in place of the one that runs otherwise, of which the first leads.
// end ends them, and starts that again.
func (e *Env) two(ctx context.Context) (first, second *rigged.Controller, end func() error, err error) {
	if err := e.Controller.Stop(ctx); err != nil {
		return nil, nil, nil, fmt.Errorf("stopping the controller: %w", err)
	}
	end = func() error {
		ctx := context.WithoutCancel(ctx)
		for _, c := range []*rigged.Controller{first, second} {
			if c != nil {
				if err := c.Stop(ctx); err != nil {
					return err
				}
			}
		}
		return e.Controller.Start(ctx)
	}
	if first, err = e.AddController(ctx, nil); err == nil {
		err = await(ctx, time.Minute, "a leader", func(ctx context.Context) (bool, error) {
			now, err := e.leader(ctx)
			return now != "", err
		})
	}
	if err == nil {
		second, err = e.AddController(ctx, nil)
	}
	if err != nil {
		_ = end()
		return nil, nil, nil, err
	}
	return first, second, end, nil
}

// leader is who holds the Lease of the controllers; empty for nobody.
func (e *Env) leader(ctx context.Context) (string, error) {
	lease, err := e.Client.CoordinationV1().Leases("stategraft").Get(ctx, "stategraft-controller", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}
