package deploy

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// TestWebhookGone: without the webhook pods are admitted as they were, and named
// afterwards; one that asks for a restore is refused all the same.
func TestWebhookGone(t *testing.T) {
	e, ctx := start(t, 15*time.Minute)
	step := stepper(t)
	step("installed", e.Install(ctx, "certificates.mode=self-signed"))
	step("namespace", e.Namespace(ctx, "prod", nil))
	step("injected", e.awaitInjection(ctx, "prod"))
	_, err := e.Kubectl(ctx, nil, "-n", Home, "scale", "deployment/"+webhookDeployment, "--replicas=0")
	step("scaled to nothing", err)
	pods := e.Client.CoreV1().Pods("prod")
	probe, err := pod("cassandra-0")
	step("pod", err)
	step("gone", e.await(ctx, time.Minute, "pods to come back as they were", func() (bool, error) {
		made, err := pods.Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && !injected(made), err
	}))
	made, err := pods.Create(ctx, probe, metav1.CreateOptions{})
	step("admitted", err)

	restoring, err := pod("cassandra-1")
	step("pod", err)
	restoring.Annotations = map[string]string{api.AnnotationRestore: "nightly"}
	_, refusal := pods.Create(ctx, restoring, metav1.CreateOptions{})
	if refusal == nil || !strings.Contains(refusal.Error(), "restore") {
		t.Errorf("a pod that asks for a restore: %v", refusal)
	}
	made, err = pods.Get(ctx, made.Name, metav1.GetOptions{})
	step("pod", err)
	var reason string
	step("counted", e.await(ctx, time.Minute, "the pod to be counted", func() (bool, error) {
		series, err := e.series(ctx, "controller", "stategraft_pods_without_sidecar")
		for labels, value := range series {
			if value > 0 && strings.Contains(labels, `namespace="prod"`) {
				reason = labels
			}
		}
		return strings.Contains(reason, "webhook-was-down"), err
	}))
	named, err := e.named(ctx, []corev1.Pod{*made})
	step("check", err)
	if named != 1 {
		t.Error("check does not name the pod")
	}
	figure(t, "admitted without us: counted as %s, named by check; with a restore refused: %.90s…", reason, refusal)
}
