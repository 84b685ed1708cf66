package controlplane

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// TestWebhookDown stops the webhook: pods are created as they are, but none that
// asked for a restore. Once it is back, the StatefulSet gets its pod, with the
// restore.
func TestWebhookDown(t *testing.T) {
	ctx, rig := start(t)
	const in, plainIn, backup = "down", "down-plain", "nightly-20260131"
	namespace(ctx, t, in, labelled(), nil)
	namespace(ctx, t, plainIn, nil, nil)
	path := filepath.Join(rig.Root, "test", "corpus", "pods", "plain-official-41.yaml")
	pod := readPod(t, path)
	plain, _ := mustCreate(ctx, t, plainIn, pod)

	if err := rig.Webhook.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	back := false
	t.Cleanup(func() { // for the tests that follow
		if !back {
			if err := rig.Webhook.Start(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	got, _ := mustCreate(ctx, t, in, pod)
	if !addedTo(typed(t, got)).none() {
		t.Errorf("added %+v by a webhook that is stopped", addedTo(typed(t, got)))
	}
	onlyOurs(t, "", normal(t, plain), normal(t, got))

	asking := pod.DeepCopy()
	asking.SetAnnotations(map[string]string{api.AnnotationRestore: backup})
	created, _, err := create(ctx, t, in, asking)
	if err == nil {
		remove(ctx, t, created)
		t.Fatal("a pod that asks for a restore was created without it")
	}
	for _, part := range []string{"restore.stategraft.io", backup, in + "/" + pod.GetName(), "webhook is running"} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in the refusal: %v", part, err)
		}
	}
	// Where the label is missing it is held too, and told so.
	if _, _, err := create(ctx, t, plainIn, asking); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "label the namespace") {
		t.Errorf("not labelled: %v", err)
	}

	set := statefulSet(typedPod(t, path), "ring", 1)
	set.Spec.Template.Annotations = map[string]string{api.AnnotationRestore: backup}
	if _, err := rig.Client.AppsV1().StatefulSets(in).Create(ctx, set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "the StatefulSet to say that it cannot create its pod", func() bool {
		events, err := rig.Client.CoreV1().Events(in).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=ring,reason=FailedCreate"})
		if err != nil {
			t.Fatal(err)
		}
		return len(events.Items) > 0 && strings.Contains(events.Items[0].Message, backup)
	})
	if err := rig.Webhook.Start(ctx); err != nil {
		t.Fatal(err)
	}
	back = true
	var restoring *corev1.Pod
	await(ctx, t, "the pod to be created with the webhook back", func() bool {
		restoring, err = rig.Client.CoreV1().Pods(in).Get(ctx, "ring-0", metav1.GetOptions{})
		return err == nil
	})
	c := container(restoring, patches.ContainerRestore)
	if c == nil {
		t.Fatalf("the pod has no %s: %+v", patches.ContainerRestore, addedTo(restoring))
	}
	for _, v := range c.Env {
		if v.Name == patches.EnvBackup && v.Value == backup {
			return
		}
	}
	t.Errorf("%s is not told to restore %s: %+v", c.Name, backup, c.Env)
}
