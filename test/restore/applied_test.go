package restore

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// After the loss of everything the workload and a Restore of all its pods are applied in
// one go. The StatefulSet makes its pods one after the other, and the Restore waits for
// the last: settled before, it would restore the first ones beside empty new nodes. Once
// it is over nothing says any more that one is under way.
func TestAppliedTogether(t *testing.T) {
	ctx, e := start(t, 20*time.Minute)
	const ns = "applied"
	if err := e.namespace(ctx, ns, map[string]string{api.LabelInject: api.InjectEnabled}); err != nil {
		t.Fatal(err)
	}
	r := &ring{Env: e, ns: ns, size: 3}
	e.Node.Storage(ns).Add(nightly, time.Now().Add(-2*time.Hour), r.pods(), nil, nil)
	o := r.restore("applied", nightly)
	if err := e.try(ctx, "the StatefulSet to be made", func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(e.Objects.Create(ctx, statefulSet(ns, r.size, appsv1.OrderedReadyPodManagement)))
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.ask(ctx, o); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	settled, err := r.until(ctx, patience, o.Name, "accepted", func(o *api.Restore) bool { return len(o.Status.Pods) > 0 || o.Status.Phase.Final() })
	if err != nil {
		explain(t, e, ns)
		t.Fatal(err)
	}
	waited := time.Since(began)
	faulty := r.judge(ctx, o.Name, all(r.pods(), restored))
	if len(settled.Status.Pods) != r.size {
		faulty = append(faulty, "it is about "+settled.Status.Message)
	}
	if err := r.await(ctx, patience, "the namespace to lose its label", func(ctx context.Context) (bool, error) {
		var space corev1.Namespace
		err := r.Objects.Get(ctx, client.ObjectKey{Name: ns}, &space)
		return err == nil && space.Labels[api.LabelRestoring] == "", err
	}); err != nil {
		faulty = append(faulty, err.Error())
	}
	if len(faulty) > 0 {
		t.Error(strings.Join(faulty, "\n"))
		explain(t, e, ns)
		return
	}
	figure(t, "applied together with its StatefulSet: waited %s for the last pod, 3 of 3 pods restored once", waited.Round(time.Second))
	r.discard(ctx)
}
