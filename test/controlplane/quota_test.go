package controlplane

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// needy is a pod whose only container has limits equal to its requests: 1 CPU and
// 4 GiB (plain-official-41 of the corpus).
func needy(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return readPod(t, filepath.Join(shared.Root, "test", "corpus", "pods", "plain-official-41.yaml"))
}

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i+1 < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// TestQuota creates a pod in namespaces whose ResourceQuota or LimitRange has room
// for it, but not always for the sidecars too. It is admitted in each.
func TestQuota(t *testing.T) {
	for _, c := range []struct {
		name   string
		quota  corev1.ResourceList
		ranges []corev1.LimitRangeItem
		inject bool
	}{
		{"no room for memory", amounts("requests.memory", "4Gi"), nil, false},
		{"no room for limits", amounts("limits.cpu", "1", "limits.memory", "8Gi"), nil, false},
		{"room", amounts("requests.cpu", "4", "requests.memory", "8Gi"), nil, true},
		{"room for limits", amounts("limits.cpu", "8", "limits.memory", "16Gi"), nil, true},
		{"room for one pod", amounts("pods", "1"), nil, true},
		{"containers have to ask for more", nil, []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Min: amounts("memory", "2Gi")}}, false},
		{"pods have a maximum", nil, []corev1.LimitRangeItem{{Type: corev1.LimitTypePod, Max: amounts("memory", "4Gi")}}, false},
		{"containers have a maximum", nil, []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: amounts("cpu", "4", "memory", "8Gi")}}, true},
		{"defaults below what ours ask for", nil, []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: amounts("cpu", "20m"),
			DefaultRequest: amounts("cpu", "10m")}}, true},
		{"defaults", nil, []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: amounts("cpu", "1", "memory", "1Gi"),
			DefaultRequest: amounts("cpu", "100m", "memory", "128Mi")}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, rig := start(t)
			in := "quota-" + strings.ReplaceAll(c.name, " ", "-")
			namespace(ctx, t, in, labelled(), nil)
			if c.quota != nil {
				_, err := rig.Client.CoreV1().ResourceQuotas(in).Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota"},
					Spec: corev1.ResourceQuotaSpec{Hard: c.quota}}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				await(ctx, t, "the quota's controller", func() bool {
					quota, err := rig.Client.CoreV1().ResourceQuotas(in).Get(ctx, "quota", metav1.GetOptions{})
					return err == nil && len(quota.Status.Hard) == len(c.quota)
				})
			}
			if c.ranges != nil {
				_, err := rig.Client.CoreV1().LimitRanges(in).Create(ctx, &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "range"},
					Spec: corev1.LimitRangeSpec{Limits: c.ranges}}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
			}
			fits := func(got *unstructured.Unstructured, told []string, err error) bool {
				return err == nil && addedTo(typed(t, got)).none() != c.inject &&
					strings.Contains(strings.Join(told, "\n"), string(workload.ReasonQuotaExceeded)) != c.inject
			}
			// The webhook's informers and the API server's own may be a moment behind.
			settle(ctx, func() bool { return fits(create(ctx, t, in, needy(t), metav1.DryRunAll)) })
			got, told, err := create(ctx, t, in, needy(t))
			if err != nil {
				t.Fatalf("the pod is refused: %v", err)
			}
			remove(ctx, t, got)
			if !fits(got, told, nil) {
				t.Errorf("added %+v, warnings %q", addedTo(typed(t, got)), told)
			}
		})
	}
}

// settle waits for what is checked right afterwards.
func settle(ctx context.Context, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !done() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestGuaranteed checks the QoS class that the API server gives.
func TestGuaranteed(t *testing.T) {
	ctx, rig := start(t)
	const in = "guaranteed"
	namespace(ctx, t, in, labelled(), nil)
	for _, backup := range []string{"", "nightly"} {
		pod := needy(t)
		if backup != "" {
			annotate(pod, api.AnnotationRestore, backup)
		}
		got, _ := mustCreate(ctx, t, in, pod)
		if out := typed(t, got); out.Status.QOSClass != corev1.PodQOSGuaranteed || addedTo(out).none() {
			t.Errorf("backup %q: class %s, added %+v", backup, out.Status.QOSClass, addedTo(out))
		}
	}
	// Anna's are init containers.
	pod := readPod(t, filepath.Join(rig.Root, "test", "corpus", "pods", "anna-memory.yaml"))
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	first, _ := containers[0].(map[string]any)
	first["resources"] = map[string]any{"limits": map[string]any{"cpu": "2", "memory": "2Gi"}}
	if err := unstructured.SetNestedSlice(pod.Object, containers, "spec", "containers"); err != nil {
		t.Fatal(err)
	}
	got, _ := mustCreate(ctx, t, in, pod)
	if out := typed(t, got); out.Status.QOSClass != corev1.PodQOSGuaranteed || addedTo(out).none() {
		t.Errorf("anna-memory: class %s, added %+v", out.Status.QOSClass, addedTo(out))
	}
}
