package restore

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

const policyName = "restore-pending.stategraft.io"

// What the other tests rely on can fail: with the policy taken away and a webhook
// that knows nothing of the Restore, databases start without it, and the witness
// says so. Even then none becomes ready: the controller deletes such pods.
func TestWithoutPolicy(t *testing.T) {
	ctx, e := start(t, 20*time.Minute)
	const ns = "without-policy"
	r, err := e.newRing(ctx, ns, 2, appsv1.ParallelPodManagement)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			explain(t, e, ns)
		}
	}()
	e.Node.Linger(ns, true)    // between the deletion and the new pods there is time
	e.Node.Slow(ns, time.Hour) // until it is said otherwise
	e.holder.hold(true)
	e.balancer.to(e.second.Port())
	defer e.Node.Linger(ns, false)
	defer func() {
		e.holder.hold(false)
		e.balancer.to(e.Webhook.Port(), e.second.Port())
	}()
	o := r.restore("without", nightly)
	if err := r.ask(ctx, o); err != nil {
		t.Fatal(err)
	}
	if _, err := r.until(ctx, patience, o.Name, "deleting both pods", func(o *api.Restore) bool {
		pods, err := r.read(ctx)
		return err == nil && len(pods) == 2 && pods["ring-0"].DeletionTimestamp != nil && pods["ring-1"].DeletionTimestamp != nil
	}); err != nil {
		t.Fatal(err)
	}
	restore := e.withoutPolicy(ctx, t)
	defer restore()
	e.Node.Linger(ns, false)
	if err := r.await(ctx, patience, "the witness to find databases that start without their restore", func(context.Context) (bool, error) {
		return len(e.Witness.Violations(ns)) > 0, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.await(ctx, patience, "the controller to delete such a pod, and say so", func(ctx context.Context) (bool, error) {
		events, err := e.Client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{})
		for _, event := range events.Items {
			if strings.Contains(event.Message, "came up without the restore") {
				return true, err
			}
		}
		return false, err
	}); err != nil {
		t.Fatal(err)
	}
	restore()
	e.Node.Slow(ns, 0)
	e.holder.hold(false)
	e.balancer.to(e.Webhook.Port(), e.second.Port())
	known := e.Witness.Violations(ns)
	for _, text := range r.judge(ctx, o.Name, all(r.pods(), restored)) {
		if !strings.Contains(text, "started without its restore") {
			t.Errorf("in the end: %s", text)
		}
	}
	figure(t, "policy taken away, webhook stale: %d databases began without their restore and were found, none became ready, all restored in the end", len(known))
	r.discard(ctx)
}

// withoutPolicy takes the policy's binding away, waits until the API server goes
// without it, and answers what puts it back.
func (e *Env) withoutPolicy(ctx context.Context, t *testing.T) (restore func()) {
	t.Helper()
	bindings := e.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	binding, err := bindings.Get(ctx, policyName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bindings.Delete(ctx, policyName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	back := false
	restore = func() {
		if back {
			return
		}
		back = true
		fresh := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: binding.Name, Labels: binding.Labels, Annotations: binding.Annotations}, Spec: binding.Spec}
		if _, err := bindings.Create(context.WithoutCancel(ctx), fresh, metav1.CreateOptions{}); err != nil {
			t.Errorf("the policy is not put back: %v", err)
		}
	}
	if err := e.await(ctx, patience, "the API server to go without the policy", func(ctx context.Context) (bool, error) {
		return e.refuses(ctx) == nil, nil
	}); err != nil {
		restore()
		t.Fatal(err)
	}
	return restore
}

// refuses tries, in a dry run, to make the probe of every Restore.
func (e *Env) refuses(ctx context.Context) error {
	var list api.RestoreList
	if err := e.Objects.List(ctx, &list); err != nil {
		return err
	}
	for _, o := range list.Items {
		if o.Status.Probe == "" {
			continue
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: o.Status.Probe, Labels: map[string]string{api.LabelInject: api.InjectDisabled}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe"}}}}
		if _, err := e.Client.CoreV1().Pods(o.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return err
		}
	}
	return nil
}

// A volume that forgets what was done to it is restored again when the object is
// applied again: the judge has to find that.
func TestForgettingIsFound(t *testing.T) {
	ctx, e := start(t, 20*time.Minute)
	const ns = "forgetting"
	r, err := e.newRing(ctx, ns, 1, appsv1.ParallelPodManagement)
	if err != nil {
		t.Fatal(err)
	}
	o := r.restore("twice", nightly)
	if err := r.ask(ctx, o); err != nil {
		t.Fatal(err)
	}
	data := all(r.pods(), restored)
	if faulty := r.judge(ctx, o.Name, data); len(faulty) > 0 {
		explain(t, e, ns)
		t.Fatal(strings.Join(faulty, "\n"))
	}
	e.Node.Forget(ns)
	// Nor does the pod remember it, in the status of its restore container.
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: r.pods()[0]}}
	if err := e.Objects.Delete(ctx, pod); err != nil {
		t.Fatal(err)
	}
	if err := r.await(ctx, patience, "a pod that knows nothing", func(ctx context.Context) (bool, error) {
		pods, err := r.read(ctx)
		now := pods[pod.Name]
		return now != nil && len(now.Spec.InitContainers) == 0 && isReady(now), err
	}); err != nil {
		t.Fatal(err)
	}
	_, faulty := r.again(ctx, o, data)
	if !strings.Contains(strings.Join(faulty, "\n"), "replaced 2 times") {
		t.Errorf("restored twice, and that is not found: %q", faulty)
	}
	r.discard(ctx)
}
