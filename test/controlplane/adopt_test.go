package controlplane

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// TestAdoptedPodsAreTaken has the API server itself judge what pods of the corpus are
// adopted with, twice each: where everything is allowed, and in a namespace that enforces
// the restricted Pod Security Standard, for those that it takes at all.
func TestAdoptedPodsAreTaken(t *testing.T) {
	ctx, _ := start(t)
	const open, strict = "adopt-open", "adopt-restricted"
	namespace(ctx, t, open, nil, nil)
	namespace(ctx, t, strict, map[string]string{enforce: "restricted"}, nil)
	taken := map[string]int{}
	for _, row := range rows(t) {
		if row.decision != string(workload.Inject) {
			continue
		}
		for _, in := range []string{open, strict} {
			pod := readPod(t, row.path)
			owners := pod.GetOwnerReferences()
			pod.SetOwnerReferences(nil) // the collector would take a pod whose owner is not there
			if err := unstructured.SetNestedField(pod.Object, "adopt-node", "spec", "nodeName"); err != nil {
				t.Fatal(err)
			}
			created, _, err := create(ctx, t, in, pod)
			switch {
			case err != nil && in == strict && apierrors.IsForbidden(err):
				continue
			case err != nil:
				t.Errorf("%s in %s: %v", row.name, in, err)
				continue
			}
			if adoptTwice(ctx, t, row.name, created, owners) {
				taken[in]++
			}
			remove(ctx, t, created)
		}
	}
	t.Logf("adopted: %v", taken)
	if taken[open] < 30 || taken[strict] < 1 {
		t.Errorf("only %v were adopted: this proves nothing", taken)
	}
}

// adoptTwice adds one round to the pod, then another, as a controller would that has seen
// the pod as it is then. It tells whether there was anything to add.
func adoptTwice(ctx context.Context, t *testing.T, name string, pod *unstructured.Unstructured, owners []metav1.OwnerReference) bool {
	t.Helper()
	var before []corev1.EphemeralContainer
	for round := range 2 {
		owned := pod.DeepCopy()
		owned.SetOwnerReferences(owners)
		raw, err := owned.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		out, containers := webhook.Adopt(webhook.Input{Pod: raw, Config: webhook.DefaultConfig(), NativeSidecars: true,
			Namespace: webhook.Namespace{Name: pod.GetNamespace(), Labels: labelled()}}, patches.Adoption{Next: 1, At: time.Now()})
		switch {
		case out.Verdict == workload.Inject && len(containers) > 0:
		case round == 0 && (out.Reason == workload.ReasonNoData || out.Reason == workload.ReasonSubPath):
			return false
		default:
			t.Errorf("%s, round %d: %s (%s) %s, %d containers", name, round, out.Verdict, out.Reason, out.Message, len(containers))
			return false
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.GetUID()}, "spec": map[string]any{"ephemeralContainers": containers}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := shared.Client.CoreV1().Pods(pod.GetNamespace()).Patch(ctx, pod.GetName(), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "ephemeralcontainers")
		if err != nil {
			t.Errorf("%s in %s, round %d: %v", name, pod.GetNamespace(), round, err)
			return false
		}
		compareAdded(t, name, got.Spec.EphemeralContainers, before, containers)
		before = got.Spec.EphemeralContainers
		if pod, err = shared.Dynamic.Resource(podResource).Namespace(got.Namespace).Get(ctx, got.Name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return true
}

// compareAdded finds on the pod what was there before, as it was, and what was added, with
// all of its variables and mounts.
func compareAdded(t *testing.T, name string, got, before, added []corev1.EphemeralContainer) {
	t.Helper()
	byName := map[string]corev1.EphemeralContainer{}
	for _, c := range got {
		byName[c.Name] = c
	}
	if len(byName) != len(before)+len(added) {
		t.Errorf("%s: %v on the pod, %d were added to %d", name, slices.Sorted(maps.Keys(byName)), len(added), len(before))
	}
	for _, c := range before {
		if !reflect.DeepEqual(byName[c.Name], c) {
			t.Errorf("%s: %s was changed", name, c.Name)
		}
	}
	for _, c := range added {
		have := byName[c.Name]
		if !reflect.DeepEqual(withoutVersion(have.Env), withoutVersion(c.Env)) || !reflect.DeepEqual(have.VolumeMounts, c.VolumeMounts) || have.TerminationMessagePolicy != c.TerminationMessagePolicy ||
			!reflect.DeepEqual(have.SecurityContext, c.SecurityContext) || have.ImagePullPolicy != c.ImagePullPolicy {
			t.Errorf("%s: %s is\n%+v\nand was sent as\n%+v", name, c.Name, have, c)
		}
	}
}

// withoutVersion gives the variables without the version of the fields that they refer to,
// which the API server fills in.
func withoutVersion(env []corev1.EnvVar) []corev1.EnvVar {
	out := make([]corev1.EnvVar, len(env))
	for i := range env {
		out[i] = *env[i].DeepCopy()
		if from := out[i].ValueFrom; from != nil && from.FieldRef != nil {
			from.FieldRef.APIVersion = ""
		}
	}
	return out
}
