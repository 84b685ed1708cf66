package restore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/cluster"
)

// fault is an interruption. It answers how it is counted: empty where there was
// nothing to interrupt.
type fault struct {
	name   string
	weight int
	// early says that it may come before anything was touched, when a pod that is
	// made anew without the webhook would rightly be refused as not injected.
	early bool
	do    func(ctx context.Context, e *Env, namespace string, random *rand.Rand) (string, error)
}

var faults = []fault{
	{"controller killed", 6, true, killController},
	{"webhook killed", 3, false, killWebhook},
	{"both webhooks killed", 3, false, killWebhooks},
	{"restore container killed", 8, true, killRestore},
	{"pod deleted by hand", 4, false, deletePod(nil)},
	{"pod deleted by force", 3, false, deletePod(new(int64(0)))},
	{"kubelet restarted", 3, true, func(_ context.Context, e *Env, _ string, _ *rand.Rand) (string, error) {
		e.Node.RestartKubelet()
		return "kubelet restarted", nil
	}},
	{"node restarted", 2, true, func(_ context.Context, e *Env, _ string, _ *rand.Rand) (string, error) {
		e.Node.Reboot()
		return "node restarted", nil
	}},
	{"API server restarted", 1, true, restartAPIServer},
	{"a webhook's watch held back", 3, true, holdBack},
}

// pick chooses an interruption.
func pick(random *rand.Rand, early bool) fault {
	total := 0
	for _, f := range faults {
		if !early || f.early {
			total += f.weight
		}
	}
	at := random.IntN(total)
	for _, f := range faults {
		if early && !f.early {
			continue
		}
		if at -= f.weight; at < 0 {
			return f
		}
	}
	panic("the weights do not add up")
}

func killController(ctx context.Context, e *Env, _ string, random *rand.Rand) (string, error) {
	down := time.Duration(random.IntN(1000)) * time.Millisecond
	e.faults.Lock()
	defer e.faults.Unlock()
	e.Timeline.Add("", "fault: controller killed, away for %s", down)
	if err := e.Controller.Kill(); err != nil {
		return "", err
	}
	pause(ctx, down)
	return "controller killed", e.Controller.Start(ctx)
}

func killWebhook(ctx context.Context, e *Env, _ string, random *rand.Rand) (string, error) {
	down, first := time.Duration(random.IntN(2000))*time.Millisecond, random.IntN(2) == 0
	e.faults.Lock()
	defer e.faults.Unlock()
	e.Timeline.Add("", "fault: webhook killed (the first: %v), away for %s", first, down)
	w := e.second
	if first {
		w = e.Webhook
	}
	if err := w.Kill(); err != nil {
		return "", err
	}
	pause(ctx, down)
	return "webhook killed", w.Start(ctx)
}

func killWebhooks(ctx context.Context, e *Env, _ string, random *rand.Rand) (string, error) {
	down := time.Duration(random.IntN(3000)) * time.Millisecond
	e.faults.Lock()
	defer e.faults.Unlock()
	e.Timeline.Add("", "fault: both webhooks killed, away for %s", down)
	if err := e.Webhook.Kill(); err != nil {
		return "", err
	}
	if err := e.second.Kill(); err != nil {
		return "", err
	}
	pause(ctx, down)
	if err := e.Webhook.Start(ctx); err != nil {
		return "", err
	}
	return "both webhooks killed", e.second.Start(ctx)
}

// killRestore waits for a moment for a restore container, and kills it in whatever
// phase it is then.
func killRestore(ctx context.Context, e *Env, namespace string, random *rand.Rand) (string, error) {
	until := time.Now().Add(time.Duration(500+random.IntN(3000)) * time.Millisecond)
	for time.Now().Before(until) {
		pause(ctx, time.Duration(random.IntN(150))*time.Millisecond)
		if _, phase, killed := e.Node.KillRestore(namespace); killed {
			return "restore container killed while " + phase, nil
		}
	}
	return "", nil
}

func deletePod(grace *int64) func(context.Context, *Env, string, *rand.Rand) (string, error) {
	return func(ctx context.Context, e *Env, namespace string, random *rand.Rand) (string, error) {
		var pods corev1.PodList
		if err := e.Objects.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			return "", nil // the API server is away
		}
		if len(pods.Items) == 0 {
			return "", nil
		}
		name := pods.Items[random.IntN(len(pods.Items))].Name
		e.Timeline.Add(namespace, "fault: pod %s deleted by hand, force %v", name, grace != nil)
		err := e.Client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: grace})
		if err != nil {
			return "", nil // it is gone, or the API server is
		}
		if grace != nil {
			return "pod deleted by force", nil
		}
		return "pod deleted by hand", nil
	}
}

func restartAPIServer(ctx context.Context, e *Env, _ string, _ *rand.Rand) (string, error) {
	e.faults.Lock()
	defer e.faults.Unlock()
	e.Timeline.Add("", "fault: API server restarts")
	err := e.Restart(ctx, cluster.APIServer)
	if err != nil && strings.Contains(err.Error(), "ended (") {
		err = nil // one that only just began, and gave up without it; started again below
	}
	if err == nil {
		err = e.awaitKinds(ctx)
	}
	// Their informers wait for up to a minute when the API server is gone, and do not
	// matter here. Ours wait too, and are left to it.
	for _, component := range []string{cluster.ControllerManager, cluster.Scheduler} {
		if err == nil {
			err = e.Restart(ctx, component)
		}
	}
	e.Timeline.Add("", "fault: API server is back")
	if err != nil {
		return "", fmt.Errorf("restarting the API server: %w", err)
	}
	return "API server restarted", nil
}

// awaitKinds waits until the API server knows the kind of Restores again, for which it
// looks twice a minute. Until then it refuses every pod of the namespaces in which a
// Restore is under way, and of no others (docs/decisions/0010-restoring-label.md). The
// StatefulSet controller, restarted after that, would be slow to try again there: its
// backoff grows to a quarter of an hour (docs/troubleshooting.md). Where none is under
// way there is nothing to wait for.
func (e *Env) awaitKinds(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	for {
		var underWay corev1.NamespaceList
		err := e.Objects.List(ctx, &underWay, client.MatchingLabels{api.LabelRestoring: api.RestoringTrue})
		known := err == nil
		for i := range underWay.Items {
			if knows, why := e.knowsKinds(ctx, underWay.Items[i].Name); !knows {
				known, err = false, why
			}
		}
		if known {
			return nil
		}
		pause(ctx, 300*time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for the API server to know Restores: %w (%v)", context.Cause(ctx), err)
		}
	}
}

// knowsKinds tries to make a pod in a namespace, on a dry run.
func (e *Env) knowsKinds(ctx context.Context, namespace string) (bool, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kinds"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
	_, err := e.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil, apierrors.IsNotFound(err): // the scenario is over
		return true, nil
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "failed to configure policy"):
		return true, nil
	}
	return false, err
}

func holdBack(ctx context.Context, e *Env, _ string, random *rand.Rand) (string, error) {
	length := time.Duration(1000+random.IntN(4000)) * time.Millisecond
	e.holding.Lock()
	defer e.holding.Unlock()
	e.Timeline.Add("", "fault: the watch of the second webhook held back for %s", length)
	e.holder.hold(true)
	e.balancer.shuffle()
	pause(ctx, length)
	e.holder.hold(false)
	return "a webhook's watch held back", nil
}
