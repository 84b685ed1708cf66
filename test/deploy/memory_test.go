package deploy

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
)

const (
	fewPods, manyPods = 200, 20000
	memoryLimit       = 150 << 20 // of one replica, with manyPods
)

// TestMemory: what one replica takes grows little with the pods in the cluster.
func TestMemory(t *testing.T) {
	enabled(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Minute, fmt.Errorf("not done within 20 minutes"))
	defer cancel()
	step := stepper(t)
	rig, err := rigged.Start(ctx, rigged.Options{Log: t.Output(), Controller: true})
	step("started", err)
	t.Cleanup(func() {
		if err := rig.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	config := rig.Config()
	config.QPS, config.Burst = 5000, 5000
	client, err := kubernetes.NewForConfig(config)
	step("client", err)
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "many", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}, metav1.CreateOptions{})
	step("namespace", err)

	e := &Env{ControlPlane: rig.ControlPlane, Client: client, Root: rig.Root, log: t.Output()}
	step("injected", e.awaitInjection(ctx, "many"))
	sizes := map[int][2]float64{} // of the webhook and of the controller
	made := 0
	for _, count := range []int{fewPods, manyPods} {
		step(fmt.Sprintf("%d pods", count), fill(ctx, client, made, count))
		made = count
		step("seen", e.await(ctx, 2*time.Minute, "the controller to count them", func() (bool, error) {
			found := map[string]float64{}
			err := scrape(ctx, rig.Controller.MetricsURL(), "stategraft_injected_pods", found)
			return found[`kind="cassandra"`] == float64(count), err
		}))
		sizes[count] = [2]float64{resident(ctx, t, rig.Webhook.MetricsURL()), resident(ctx, t, rig.Controller.MetricsURL())}
		// Whoever starts anew has to read all of them at once.
		step("webhook stopped", rig.Webhook.Stop(ctx))
		step("controller stopped", rig.Controller.Stop(ctx))
		step("controller started", rig.Controller.Start(ctx))
		step("webhook started", rig.Webhook.Start(ctx))
		step("counted anew", e.await(ctx, 2*time.Minute, "the controller to count them", func() (bool, error) {
			found := map[string]float64{}
			err := scrape(ctx, rig.Controller.MetricsURL(), "stategraft_injected_pods", found)
			return found[`kind="cassandra"`] == float64(count), err
		}))
		for i, url := range []string{rig.Webhook.MetricsURL(), rig.Controller.MetricsURL()} {
			size := sizes[count]
			size[i] = max(size[i], resident(ctx, t, url))
			sizes[count] = size
		}
	}
	const mib = 1 << 20
	figure(t, "webhook %.0f MiB with %d injected pods, %.0f MiB with %d; controller %.0f MiB, %.0f MiB (the larger of running and just started)",
		sizes[fewPods][0]/mib, fewPods, sizes[manyPods][0]/mib, manyPods, sizes[fewPods][1]/mib, sizes[manyPods][1]/mib)
	for i, name := range []string{"webhook", "controller"} {
		if sizes[manyPods][i] > memoryLimit {
			t.Errorf("the %s takes %.0f MiB, at most %d are allowed", name, sizes[manyPods][i]/mib, memoryLimit/mib)
		}
	}
}

// fill creates the pods from number from on, up to the count.
func fill(ctx context.Context, client kubernetes.Interface, from, count int) error {
	template, err := pod("filled-in")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan int)
	var wait sync.WaitGroup
	for range creators {
		wait.Go(func() {
			for n := range todo {
				p := template.DeepCopy()
				p.Name = fmt.Sprintf("cassandra-%06d", n)
				p.Spec.Hostname = p.Name
				made, err := client.CoreV1().Pods("many").Create(ctx, p, metav1.CreateOptions{})
				if err == nil && !injected(made) {
					err = fmt.Errorf("pod %s is not injected", p.Name)
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	for n := from; n < count && ctx.Err() == nil; n++ {
		todo <- n
	}
	close(todo)
	wait.Wait()
	return context.Cause(ctx)
}

// resident is how much memory a process takes, by its own metrics.
func resident(ctx context.Context, t *testing.T, url string) float64 {
	t.Helper()
	found := map[string]float64{}
	if err := scrape(ctx, url, "process_resident_memory_bytes", found); err != nil {
		t.Fatal(err)
	}
	if found[""] == 0 {
		t.Fatalf("%s does not tell its memory", url)
	}
	alloc := map[string]float64{}
	if err := scrape(ctx, url, "go_memstats_heap_alloc_bytes", alloc); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: resident %.0f MiB, heap %.0f MiB", url, found[""]/(1<<20), alloc[""]/(1<<20))
	return found[""]
}
