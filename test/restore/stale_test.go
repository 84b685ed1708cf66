package restore

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// One of two webhooks knows nothing of the Restore, as its watch is held back: what
// it admits without a restore container the API server refuses, and no pod starts
// without its restore.
func TestStaleWebhook(t *testing.T) {
	ctx, e := start(t, 20*time.Minute)
	length := 4 * time.Second
	if os.Getenv(InterruptionsEnv) != "" {
		length = 30 * time.Second
	}
	const ns = "stale"
	r, err := e.newRing(ctx, ns, 3, appsv1.ParallelPodManagement)
	if err != nil {
		t.Fatal(err)
	}
	e.holder.hold(true)
	e.balancer.to(e.second.Port()) // it answers first, so that it is asked at all
	began := time.Now()
	defer func() {
		e.holder.hold(false)
		e.balancer.to(e.Webhook.Port(), e.second.Port())
	}()
	o := r.restore("stale", nightly)
	if err := r.ask(ctx, o); err != nil {
		t.Fatal(err)
	}
	if err := r.await(ctx, patience, "the API server to refuse what the stale webhook admits", func(ctx context.Context) (bool, error) {
		refused, err := r.refusals(ctx)
		return refused > 0, err
	}); err != nil {
		explain(t, e, ns)
		t.Fatal(err)
	}
	e.balancer.to(e.Webhook.Port(), e.second.Port())
	for time.Since(began) < length && ctx.Err() == nil { // a connection stays with a replica
		pause(ctx, 300*time.Millisecond)
		e.balancer.shuffle()
	}
	e.holder.hold(false)
	faulty := r.judge(ctx, o.Name, all(r.pods(), restored))
	if e.Witness.Slipped(ns) > 0 {
		faulty = append(faulty, "a database began without its restore")
	}
	if len(faulty) > 0 {
		t.Error(strings.Join(faulty, "\n"))
		explain(t, e, ns)
		return
	}
	refused, err := r.refusals(ctx)
	if err != nil {
		t.Fatal(err)
	}
	figure(t, "watch held back for %s: the API server refused %d creations, 3 of 3 pods restored once, none started without", time.Since(began).Round(time.Second), refused)
	r.discard(ctx)
}

// refusals counts the pods that the policy of pending pods has refused.
func (r *ring) refusals(ctx context.Context) (refused int, err error) {
	var events corev1.EventList
	if err := r.Objects.List(ctx, &events, client.InNamespace(r.ns)); err != nil {
		return 0, err
	}
	for _, event := range events.Items {
		if event.Reason == "FailedCreate" && strings.Contains(event.Message, "restore-pending.stategraft.io") {
			refused += max(int(event.Count), 1)
		}
	}
	return refused, nil
}
