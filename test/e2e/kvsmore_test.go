package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/agent/anna/wire"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/kvs"
)

// Each KVS node gets a Service of its own, and says the address that the provider gave
// it; it does not start before. The provider here is the test.
func TestKVSExposed(t *testing.T) {
	e, ctx := restoring(t, 10*time.Minute)
	step := stepper(t)
	done := make(chan error, 1)
	providing, stop := context.WithCancel(ctx)
	defer stop()
	given := func(pod string) string { return fmt.Sprintf("%s.%s.svc.cluster.local", pod, memorySet) }
	go func() { done <- provide(providing, e, "kvs-exposed") }()
	k, err := e.KVS(ctx, "kvs-exposed", KVSSetup{Routing: 1, Memory: 2, Disk: 1, Threads: 1, Annotations: map[string]string{api.AnnotationExpose: "LoadBalancer"}})
	step("ready", err)
	var members wire.Membership
	_, err = k.Client(ctx, &members, "members")
	step("members", err)
	var public []string
	for _, s := range members.Of(wire.Memory) {
		public = append(public, s.Public)
	}
	slices.Sort(public)
	for _, s := range public {
		if !strings.HasPrefix(s, "10.") && !strings.Contains(s, "lb-") {
			t.Errorf("a node says its public address is %s, which no provider gave", s)
		}
	}
	if len(public) != 2 {
		t.Errorf("%d memory nodes: %v, such as %s", len(public), public, given(memorySet+"-0"))
	}
	d := kvs.Data{Keys: 200, Seed: 3}
	k.written(ctx, t, d)
	k.all(ctx, t, d)
	// The address stays when the pod is another.
	before, err := k.exposed(ctx)
	step("Services", err)
	step("deleted", e.DeletePod(ctx, k.Namespace, memorySet+"-1"))
	step("ready again", k.Ready(ctx, 3*time.Minute))
	after, err := k.exposed(ctx)
	step("Services", err)
	if !slices.Equal(before, after) {
		t.Errorf("the Services were %v and are %v", before, after)
	}
	figure(t, "%d Services of type LoadBalancer, the nodes say %s; keys written and read through them; kept when a pod was re-created", len(after), strings.Join(public, ", "))
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func (k *KVS) exposed(ctx context.Context) (ids []string, err error) {
	list, err := k.e.Client.CoreV1().Services(k.Namespace).List(ctx, metav1.ListOptions{LabelSelector: api.LabelExposed})
	if err != nil {
		return nil, fmt.Errorf("listing Services: %w", err)
	}
	for _, s := range list.Items {
		ids = append(ids, s.Name+" "+string(s.UID))
	}
	slices.Sort(ids)
	return ids, nil
}

// provide is a provider of load balancers: each Service gets its own cluster address, as
// one that hairpins would be.
func provide(ctx context.Context, e *Env, namespace string) error {
	for {
		list, err := e.Client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
		if err == nil {
			for i := range list.Items {
				s := &list.Items[i]
				if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 {
					continue
				}
				patch := fmt.Sprintf(`{"status":{"loadBalancer":{"ingress":[{"ip":%q}]}}}`, s.Spec.ClusterIP)
				if _, err := e.Client.CoreV1().Services(namespace).Patch(ctx, s.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil && ctx.Err() == nil {
					return fmt.Errorf("giving Service %s an address: %w", s.Name, err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// With on-config-change: restart the pods get a changed ConfigMap one after the other,
// each when the one before it is ready again; without, nothing happens but an event.
func TestKVSConfigChange(t *testing.T) {
	e, ctx := restoring(t, 15*time.Minute)
	step := stepper(t)
	k, err := e.KVS(ctx, "kvs-config", KVSSetup{Routing: 1, Memory: 2, Disk: 1, Threads: 1, Annotations: map[string]string{api.AnnotationOnConfigChange: api.OnConfigChangeRestart}})
	step("ready", err)
	d := kvs.Data{Keys: 500, Seed: 4}
	k.written(ctx, t, d)
	before, err := k.uids(ctx)
	step("read", err)
	changed := k.setup
	changed.Capacity = 2 // threads and copies would have to change everywhere at once
	down, stop := k.mostDown(ctx, t, memorySet, diskSet)
	began := time.Now()
	objects, err := (&KVS{e: e, Namespace: k.Namespace, setup: changed}).objects(ctx)
	step("read", err)
	for i := range objects {
		if objects[i].GetKind() != "ConfigMap" {
			continue
		}
		text, err := objects[i].MarshalJSON()
		step("encoded", err)
		_, err = e.Kubectl(ctx, strings.NewReader(string(text)), "-n", k.Namespace, "apply", "-f", "-")
		step("changed", err)
	}
	for {
		now, err := k.uids(ctx)
		if err != nil {
			t.Fatal(err)
		}
		fresh := 0
		for pod, uid := range now {
			if strings.HasPrefix(pod, memorySet) || strings.HasPrefix(pod, diskSet) {
				if before[pod] != uid {
					fresh++
				}
			} else if before[pod] != "" && before[pod] != uid {
				t.Fatalf("pod %s was re-created, too", pod)
			}
		}
		if fresh == 3 {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d of 3 pods are new: %v", fresh, context.Cause(ctx))
		case <-time.After(time.Second):
		}
	}
	step("all new", k.Ready(ctx, 5*time.Minute))
	stop()
	if n := down(); n > 1 {
		t.Errorf("%d pods were not ready at one time", n)
	}
	took := time.Since(began)
	healed := k.await(ctx, t, d) // what the last join hides is written again within seconds
	figure(t, "a changed ConfigMap: 3 pods re-created one at a time in %s, no two down together; all 500 keys served %s after the last was ready", took.Round(time.Second), healed.Round(time.Second))
}

func (k *KVS) uids(ctx context.Context) (map[string]types.UID, error) {
	list, err := k.e.Client.CoreV1().Pods(k.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	uids := map[string]types.UID{}
	for _, pod := range list.Items {
		if metav1.GetControllerOf(&pod) != nil && metav1.GetControllerOf(&pod).Kind == "StatefulSet" {
			uids[pod.Name] = pod.UID
		}
	}
	return uids, nil
}

// mostDown watches how many pods of StatefulSets are not ready at a time.
func (k *KVS) mostDown(ctx context.Context, t *testing.T, sets ...string) (most func() int, stop func()) {
	t.Helper()
	want, err := k.Pods(ctx, sets...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	worst, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			list, err := k.e.Client.CoreV1().Pods(k.Namespace).List(ctx, metav1.ListOptions{})
			if err == nil {
				up := 0
				for _, pod := range list.Items {
					if slices.Contains(want, pod.Name) && ready(&pod) {
						up++
					}
				}
				worst = max(worst, len(want)-up)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}()
	return func() int { return worst }, func() { cancel(); <-done }
}
