package restore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Of two controllers the one that leads is killed in the middle: the other goes on.
func TestLeaderKilled(t *testing.T) {
	ctx, e := start(t, 20*time.Minute)
	const ns = "leaders"
	r, err := e.newRing(ctx, ns, 3, appsv1.ParallelPodManagement)
	if err != nil {
		t.Fatal(err)
	}
	e.faults.Lock()
	defer e.faults.Unlock()
	if err := e.Controller.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Controller.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	leader, err := e.AddController(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := ""
	if err := r.await(ctx, patience, "a leader", func(ctx context.Context) (_ bool, err error) {
		before, err = e.leader(ctx)
		return before != "", err
	}); err != nil {
		t.Fatal(err)
	}
	second, err := e.AddController(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := r.restore("led", nightly)
	o.Spec.Parallel = 1
	if err := r.ask(ctx, o); err != nil {
		t.Fatal(err)
	}
	if _, err := r.until(ctx, patience, o.Name, "in the middle", begun); err != nil {
		explain(t, e, ns)
		t.Fatal(err)
	}
	killed := time.Now()
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	faulty := r.judge(ctx, o.Name, all(r.pods(), restored))
	if now, err := e.leader(ctx); err != nil || now == "" || now == before {
		faulty = append(faulty, fmt.Sprintf("the second controller does not lead, but %q: %v", now, err))
	}
	if len(faulty) > 0 {
		t.Error(strings.Join(faulty, "\n"))
		t.Logf("the log of the second controller:\n%s", second.Log())
		explain(t, e, ns)
	}
	if err := second.Stop(ctx); err != nil {
		t.Error(err)
	}
	figure(t, "the leader killed while it deleted pods: the other had all 3 restored once, %s later", time.Since(killed).Round(time.Second))
	r.discard(ctx)
}

// leader is who holds the Lease of the controllers.
func (e *Env) leader(ctx context.Context) (string, error) {
	lease, err := e.Client.CoordinationV1().Leases("stategraft").Get(ctx, "stategraft-controller", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}
