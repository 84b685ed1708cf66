package adopt

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/test/adopt/simulated"
	"github.com/stategraft/stategraft/test/adopt/witness"
)

// The controller is killed at random instants while it adopts, and pods are deleted in the
// middle of it: no container comes twice, no pod gets a round that was not due, the limits
// hold over it all, and in the end every pod is adopted, or was created anew with its
// sidecars. Where there is the time for the backoff, the first Medusa of some is killed too.
func TestControllerKilled(t *testing.T) {
	ctx, e := start(t, 20*time.Minute)
	random := seeded(t)
	const namespace, each = "killed", 3
	workloads, kills := 6, 3
	if full() {
		workloads, kills = 30, 30
	}
	w, stop, err := e.Witness(ctx, namespace, usual(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var town *Town
	defer func() { look(ctx, t, w, stop, compact(town)...) }()
	var sets []*appsv1.StatefulSet
	for i := range workloads {
		sets = append(sets, Cassandra(fmt.Sprintf("ring-%02d", i), each))
	}
	if town, err = e.Settle(ctx, namespace, simulated.Played{Node: spread, Script: lasting}, sets...); err != nil {
		t.Fatal(err)
	}
	if err := town.Label(ctx, api.AdoptRunning); err != nil {
		t.Fatal(err)
	}
	pods, killed, deleted := workloads*each, 0, 0
	for range kills {
		pause(ctx, time.Duration(random.IntN(1500))*time.Millisecond)
		if random.IntN(2) == 0 {
			gone, err := town.deleteOne(ctx, random, w.Goes)
			if err != nil {
				t.Fatal(err)
			}
			deleted += gone
		}
		if err := errors.Join(e.Controller.Kill(), e.Controller.Start(ctx)); err != nil {
			t.Fatal(err)
		}
		killed++
	}
	if err := town.labelled(ctx); err != nil {
		t.Fatal(err)
	}
	if err := town.followed(ctx); err != nil {
		t.Fatal(err)
	}
	// Nothing more comes afterwards.
	before := settled(ctx, t, w, namespace)
	pause(ctx, lull())
	after := w.Of(namespace)
	if before != after {
		t.Errorf("after all was done: %+v, later %+v", before, after)
	}
	if most := len(frailSets()) + 1; after.MostRounds > most {
		t.Errorf("a pod got %d rounds, at most %d were due", after.MostRounds, most)
	}
	if after.Pods != pods+deleted {
		t.Errorf("%d pods were seen, want %d and %d that followed others", after.Pods, pods, deleted)
	}
	most := w.Most()
	figure(t, "%d pods, the controller killed %d times and %d pods deleted in the middle: no container twice, no round that was not due; at most %d of a workload, %d on a node, %d in all",
		pods, killed, deleted, most.PerWorkload, most.PerNode, most.InAll)
}

// frailSets are the workloads whose pods lose their first Medusa.
func frailSets() []string {
	if full() {
		return []string{"ring-00"}
	}
	return nil
}

// lasting has containers start a little later, so that the controller is killed while some
// come up.
func lasting(pod *corev1.Pod, c *corev1.EphemeralContainer) simulated.Play {
	play := simulated.Play{After: time.Second + time.Duration(number(pod)%2000)*time.Millisecond}
	if slices.Contains(frailSets(), pod.Labels["app"]) && c.Name == "stategraft-medusa-3" {
		play.Runs, play.Exit = 300*time.Millisecond, 137
	}
	return play
}

// followed waits until all parts of the adopted pods are up, of frail ones after a second
// round.
func (t *Town) followed(ctx context.Context) error {
	return await(ctx, 4*time.Minute, "all parts to be up", func(ctx context.Context) (bool, error) {
		pods, err := t.Pods(ctx)
		for i := range pods {
			p, want := &pods[i], 3
			if !adopted.Is(p) {
				continue
			}
			if slices.Contains(frailSets(), p.Labels["app"]) {
				want = 5
			}
			if n := len(p.Spec.EphemeralContainers); n != want || !witness.Up(p) {
				return false, fmt.Errorf("pod %s has %d containers, want %d, all up: %v", p.Name, n, want, witness.Up(p))
			}
		}
		return err == nil, err
	})
}

// deleteOne deletes a pod that is being adopted, or, where there is none, one that waits
// for that.
func (t *Town) deleteOne(ctx context.Context, random *rand.Rand, tell func(types.UID)) (deleted int, err error) {
	pods, err := t.Pods(ctx)
	if err != nil {
		return 0, err
	}
	random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	best := -1
	for i := range pods {
		if pods[i].DeletionTimestamp != nil || pods[i].Labels[api.LabelInjected] != "" {
			continue
		}
		if best < 0 || adopted.Is(&pods[i]) && !adopted.Is(&pods[best]) {
			best = i
		}
	}
	if best < 0 {
		return 0, nil
	}
	p := &pods[best]
	tell(p.UID)
	err = t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
	if err != nil {
		return 0, fmt.Errorf("deleting pod %s: %w", p.Name, err)
	}
	return 1, nil
}
