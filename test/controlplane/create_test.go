package controlplane

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/stategraft/stategraft/workload"
)

var podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// warnings collects what the API server tells the person at kubectl.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// ours are those that the webhook gave.
func (w *warnings) ours() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.texts), func(text string) bool { return !strings.HasPrefix(text, "stategraft: ") })
}

// create creates the pod in a namespace, as it is in the file, and answers what
// became of it, with the webhook's warnings.
func create(ctx context.Context, t *testing.T, in string, pod *unstructured.Unstructured, dryRun ...string) (*unstructured.Unstructured, []string, error) {
	t.Helper()
	collected := &warnings{}
	config := shared.Config()
	config.WarningHandler = collected
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pod = pod.DeepCopy()
	pod.SetNamespace(in)
	unstructured.RemoveNestedField(pod.Object, "status")
	name, _, _ := unstructured.NestedString(pod.Object, "spec", "serviceAccountName")
	account(ctx, t, in, name)
	created, err := client.Resource(podResource).Namespace(in).Create(ctx, pod, metav1.CreateOptions{DryRun: dryRun})
	return created, collected.ours(), err
}

// mustCreate is create where the pod has to be admitted; it is removed afterwards.
func mustCreate(ctx context.Context, t *testing.T, in string, pod *unstructured.Unstructured) (*unstructured.Unstructured, []string) {
	t.Helper()
	created, told, err := create(ctx, t, in, pod)
	if err != nil {
		t.Fatalf("the API server does not take the pod: %v", err)
	}
	remove(ctx, t, created)
	return created, told
}

// remove deletes a pod at once: there is no kubelet to end it in grace. One whose
// owner never existed may be collected already.
func remove(ctx context.Context, t *testing.T, pod *unstructured.Unstructured) {
	t.Helper()
	now := int64(0)
	err := shared.Dynamic.Resource(podResource).Namespace(pod.GetNamespace()).Delete(ctx, pod.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("removing pod %s: %v", pod.GetName(), err)
	}
}

// typed reads the pod as a core/v1 Pod.
func typed(t *testing.T, pod *unstructured.Unstructured) *corev1.Pod {
	t.Helper()
	raw, err := json.Marshal(pod)
	out := &corev1.Pod{}
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// added are the names of what is ours in a pod, in order.
type added struct{ init, containers, volumes []string }

func (a added) none() bool { return len(a.init)+len(a.containers)+len(a.volumes) == 0 }

func addedTo(pod *corev1.Pod) added {
	var a added
	for _, c := range pod.Spec.InitContainers {
		if workload.Own(c.Name) {
			a.init = append(a.init, c.Name)
		}
	}
	for _, c := range pod.Spec.Containers {
		if workload.Own(c.Name) {
			a.containers = append(a.containers, c.Name)
		}
	}
	for _, v := range pod.Spec.Volumes {
		if workload.Own(v.Name) {
			a.volumes = append(a.volumes, v.Name)
		}
	}
	return a
}

func (a added) equal(b added) bool {
	return slices.Equal(a.init, b.init) && slices.Equal(a.containers, b.containers) && slices.Equal(a.volumes, b.volumes)
}

// container finds one of the pod's containers.
func container(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
