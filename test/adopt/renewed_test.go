package adopt

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopt"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/adopt/simulated"
	"github.com/stategraft/stategraft/test/adopt/witness"
)

// When the pair of certificates is renewed, each adopted pod gets one more round, one pod of a
// workload at a time, and no more after it. Backups succeed before and after.
func TestAdoptPairRenewed(t *testing.T) {
	if !full() {
		t.Skipf("renewals are not nearer than 30 s to what was before: set %s=full", ScaleEnv)
	}
	ctx, e := start(t, 10*time.Minute)
	const namespace, workloads, each = "renewed", 4, 3
	w, stop, err := e.Witness(ctx, namespace, usual(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var town *Town
	defer func() { look(ctx, t, w, stop, compact(town)...) }()
	var sets []*appsv1.StatefulSet
	var names []string
	for i := range workloads {
		sets = append(sets, Cassandra(fmt.Sprintf("ring-%d", i), each))
		for j := range each {
			names = append(names, fmt.Sprintf("ring-%d-%d", i, j))
		}
	}
	if town, err = e.Settle(ctx, namespace, simulated.Played{Node: spread, Script: handover}, sets...); err != nil {
		t.Fatal(err)
	}
	sidecars := town.Answer(ctx, names[:each]...)
	defer func() {
		if err := sidecars.Stop(); err != nil {
			t.Errorf("the sidecars: %v", err)
		}
	}()
	if err := town.Label(ctx, api.AdoptRunning); err != nil {
		t.Fatal(err)
	}
	if err := town.labelled(ctx); err != nil {
		t.Fatal(err)
	}
	if err := town.BackUp(ctx, "before", "ring-0"); err != nil {
		t.Fatal(err)
	}
	first, err := town.digest(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := town.with(ctx, first, 1); err != nil {
		t.Fatal(err)
	}
	w.Renews(namespace)
	began := time.Now()
	second, err := town.renew(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	// It reads the Secret every ten minutes, and at once when it begins.
	if err := errors.Join(e.Controller.Kill(), e.Controller.Start(ctx)); err != nil {
		t.Fatal(err)
	}
	if err := town.with(ctx, second, 2); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	if err := town.BackUp(ctx, "after", "ring-0"); err != nil {
		t.Fatal(err)
	}
	pause(ctx, 35*time.Second) // by when another would have come
	if got, pods := w.Of(namespace), workloads*each; got.Up != pods || got.Rounds != 2*pods || got.Containers != 6*pods {
		t.Errorf("%+v, want 2 rounds with 6 containers for each of %d pods", got, pods)
	}
	most := w.Most()
	figure(t, "%d adopted pods have the renewed pair after %s, with one more round each; at no instant more than %d of a workload, %d in all; Backups before and after completed",
		workloads*each, took.Round(time.Second), most.PerWorkload, most.InAll)
}

// digest is what the Secret of the sidecars holds.
func (t *Town) digest(ctx context.Context) (string, error) {
	secret, err := t.Client.CoreV1().Secrets(t.Namespace).Get(ctx, api.SecretGRPC, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the Secret of the sidecars: %w", err)
	}
	return adopt.PairDigest(secret), nil
}

// renew has the controller make another pair, by removing the one that is there.
func (t *Town) renew(ctx context.Context, before string) (now string, err error) {
	if err := t.Client.CoreV1().Secrets(t.Namespace).Delete(ctx, api.SecretGRPC, metav1.DeleteOptions{}); err != nil {
		return "", fmt.Errorf("removing the Secret of the sidecars: %w", err)
	}
	err = await(ctx, time.Minute, "another pair", func(ctx context.Context) (bool, error) {
		now, err = t.digest(ctx)
		return now != "" && now != before, err
	})
	return now, err
}

// with waits until all pods are adopted with a pair, each by so many rounds, and are found.
func (t *Town) with(ctx context.Context, pair string, rounds int) error {
	return await(ctx, 4*time.Minute, "all pods to have the pair "+pair, func(ctx context.Context) (bool, error) {
		pods, err := t.Pods(ctx)
		for i := range pods {
			parts := adopted.Parts(&pods[i])
			medusa := adopted.Newest(parts, patches.RoleMedusa)
			if medusa == nil || medusa.Env(patches.EnvAdoptedPair) != pair || !witness.Up(&pods[i]) || pods[i].Labels[api.LabelInjected] == "" {
				return false, fmt.Errorf("pod %s has not, with %d containers", pods[i].Name, len(parts))
			}
			if n := len(adopt.Rounds(parts)); n != rounds {
				return false, fmt.Errorf("pod %s has it by %d rounds, want %d", pods[i].Name, n, rounds)
			}
		}
		return err == nil, err
	})
}
