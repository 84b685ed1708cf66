package controlplane

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// TestLaterWebhook has another webhook change the pod after ours, so that the API
// server asks ours once more (reinvocationPolicy IfNeeded): what the other did
// stays, and ours is there once.
func TestLaterWebhook(t *testing.T) {
	add := func(path string, value any) jsonpatch.Operation {
		return jsonpatch.Operation{Operation: "add", Path: path, Value: value}
	}
	for i, c := range []struct {
		name   string
		change func(pod *corev1.Pod) []jsonpatch.Operation
		check  func(t *testing.T, pod *corev1.Pod)
		again  string // our decision when asked once more
	}{
		{"adds", func(*corev1.Pod) []jsonpatch.Operation {
			return []jsonpatch.Operation{
				add("/metadata/labels/later", "yes"),
				add("/metadata/annotations/later", "yes"),
				add("/spec/containers/0/env/-", corev1.EnvVar{Name: "LATER", Value: "yes"}),
				add("/spec/containers/-", corev1.Container{Name: "later", Image: "example.invalid/later:1"}),
			}
		}, func(t *testing.T, pod *corev1.Pod) {
			if pod.Labels["later"] != "yes" || pod.Annotations["later"] != "yes" || container(pod, "later") == nil ||
				!slices.ContainsFunc(pod.Spec.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == "LATER" }) {
				t.Error("the other webhook's change is lost")
			}
		}, "skip"},
		{"puts its sidecar first", func(*corev1.Pod) []jsonpatch.Operation {
			return []jsonpatch.Operation{add("/spec/containers/0", corev1.Container{Name: "first", Image: "example.invalid/first:1"})}
		}, func(t *testing.T, pod *corev1.Pod) {
			if pod.Spec.Containers[0].Name != "first" {
				t.Errorf("the first container is %s", pod.Spec.Containers[0].Name)
			}
		}, "skip"},
		{"takes one of ours away", func(pod *corev1.Pod) []jsonpatch.Operation {
			i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == patches.ContainerMedusa })
			return []jsonpatch.Operation{{Operation: "remove", Path: fmt.Sprintf("/spec/containers/%d", i)}}
		}, func(*testing.T, *corev1.Pod) {}, "inject"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, rig := start(t)
			in := fmt.Sprintf("reinvoke-%d", i)
			namespace(ctx, t, in, labelled("stategraft-test", in), nil)
			// Called after ours: by name. It acts on Cassandra pods and not on its probe.
			later := &hook{name: "zz-later", labels: map[string]string{"stategraft-test": in}, change: func(pod *corev1.Pod) []jsonpatch.Operation {
				if addedTo(pod).none() {
					return nil
				}
				return c.change(pod)
			}}
			later.install(ctx, t, in)
			before := len(rig.Webhook.Decisions(in))
			created, _ := mustCreate(ctx, t, in, readPod(t, filepath.Join(rig.Root, "test", "corpus", "pods", "plain-official-41.yaml")))
			pod := typed(t, created)
			c.check(t, pod)
			mine := addedTo(pod)
			slices.Sort(mine.containers)
			if want := []string{patches.ContainerAgent, patches.ContainerMedusa, patches.ContainerSnapshot}; !slices.Equal(mine.containers, want) {
				t.Errorf("ours are %q, want each once: %q", mine.containers, want)
			}
			if len(later.seen()) != 1 {
				t.Errorf("the later webhook was called %d times", len(later.seen()))
			}
			decided := rig.Webhook.Decisions(in)[before:]
			if len(decided) != 2 || decided[0].Decision != "inject" || decided[1].Decision != c.again ||
				(c.again == "skip" && decided[1].Reason != string(workload.ReasonAlreadyInjected)) {
				t.Errorf("decided %+v, want inject, then %s", decided, c.again)
			}
		})
	}
}
