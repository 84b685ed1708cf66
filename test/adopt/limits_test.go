package adopt

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/adopt/simulated"
)

// spread binds the pods to the nodes by their names, some of a workload to one.
func spread(pod *corev1.Pod) string { return node(number(pod)) }

// number is one of a pod by its name.
func number(pod *corev1.Pod) (n int) {
	for _, b := range []byte(pod.Namespace + pod.Name) {
		n = (n*31 + int(b)) % 65521
	}
	return n
}

// slowly has containers start as where their image is pulled first, so that as many pods
// are being adopted at once as may be: the controller makes but ten requests a second.
func slowly(pod *corev1.Pod, _ *corev1.EphemeralContainer) simulated.Play {
	return simulated.Play{After: 5*time.Second + time.Duration(number(pod)%3000)*time.Millisecond}
}

// All pods of a cluster are adopted at once, and at no instant are more of them being
// adopted than there may be: of a workload, on a node, in all.
func TestLimits(t *testing.T) {
	t.Parallel()
	ctx, e := start(t, 15*time.Minute)
	const prefix = "limits-"
	workloads, each, on, namespaces := 11, 2, 6, 1
	if full() {
		workloads, each, on, namespaces = 40, 5, nodes, 4
	}
	place := func(pod *corev1.Pod) string { return node(number(pod) % on) }
	w, stop, err := e.Witness(ctx, prefix, usual(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var towns []*Town
	defer func() { look(ctx, t, w, stop, towns...) }()
	// However busy the machine is: nothing comes up before as many as half the limit are at it.
	script := func(pod *corev1.Pod, c *corev1.EphemeralContainer) simulated.Play {
		if w.Most().InAll < usual().InAll/2 {
			return simulated.Play{Waits: "ContainerCreating"}
		}
		return slowly(pod, c)
	}
	for i := range namespaces {
		var sets []*appsv1.StatefulSet
		for j := range workloads / namespaces {
			sets = append(sets, Cassandra(fmt.Sprintf("ring-%02d", j), each))
		}
		town, err := e.Settle(ctx, fmt.Sprint(prefix, i), simulated.Played{Node: place, Script: script}, sets...)
		if err != nil {
			t.Fatal(err)
		}
		towns = append(towns, town)
	}
	began := time.Now()
	for _, town := range towns {
		if err := town.Label(ctx, api.AdoptRunning); err != nil {
			t.Fatal(err)
		}
	}
	pods := workloads * each
	if err := await(ctx, 10*time.Minute, "all pods to be adopted", func(context.Context) (bool, error) {
		tally := w.Of("")
		if tally.Up != pods {
			return false, fmt.Errorf("%d of %d are", tally.Up, pods)
		}
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	for _, town := range towns {
		if err := town.labelled(ctx); err != nil {
			t.Error(err)
		}
	}
	tally, most := w.Of(""), w.Most()
	if tally.Rounds != pods || tally.Containers != 3*pods {
		t.Errorf("%d rounds with %d containers for %d pods, want one each with 3", tally.Rounds, tally.Containers, pods)
	}
	if most.InAll < usual().InAll/2 {
		t.Errorf("at most %d at once: the limits were never tried", most.InAll)
	}
	figure(t, "%d pods of %d workloads on %d nodes adopted after %s; at no instant more than %d of a workload, %d on a node, %d in all",
		pods, workloads, on, took.Round(time.Second), most.PerWorkload, most.PerNode, most.InAll)
}

// labelled waits until all pods carry the label by which the other controllers find them.
func (t *Town) labelled(ctx context.Context) error {
	return await(ctx, 3*time.Minute, "the pods of "+t.Namespace+" to be labelled", func(ctx context.Context) (bool, error) {
		pods, err := t.Pods(ctx)
		for i := range pods {
			if pods[i].Labels[api.LabelInjected] == "" {
				return false, fmt.Errorf("pod %s is not", pods[i].Name)
			}
		}
		if err == nil && len(pods) != t.pods {
			err = fmt.Errorf("there are %d of %d", len(pods), t.pods)
		}
		return err == nil, err
	})
}
