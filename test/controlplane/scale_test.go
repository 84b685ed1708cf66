package controlplane

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/test/controlplane/compare"
)

// TestTwoHundredPods has ten StatefulSets create twenty pods each in a labelled
// namespace, and the same in another: all are injected there, none here, and
// nobody writes to a StatefulSet.
func TestTwoHundredPods(t *testing.T) {
	ctx, rig := start(t)
	const sets, replicas = 10, 20
	pod := typedPod(t, filepath.Join(rig.Root, "test", "corpus", "pods", "plain-official-41.yaml"))
	for _, c := range []struct {
		in       string
		labels   map[string]string
		injected int
	}{
		{"scale-labelled", labelled(), sets * replicas},
		{"scale-plain", map[string]string{"stategraft-test": "scale"}, 0},
	} {
		t.Run(c.in, func(t *testing.T) {
			namespace(ctx, t, c.in, c.labels, nil)
			client := rig.Client.AppsV1().StatefulSets(c.in)
			applied := map[string]*appsv1.StatefulSet{}
			for i := range sets {
				name := fmt.Sprintf("ring%d", i)
				set, err := client.Create(ctx, statefulSet(pod, name, replicas), metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				applied[name] = set
			}
			var pods []corev1.Pod
			await(ctx, t, "the pods of the StatefulSets", func() bool {
				list, err := rig.Client.CoreV1().Pods(c.in).List(ctx, metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				pods = list.Items
				return len(pods) >= sets*replicas
			})
			injected := 0
			for i := range pods {
				mine := addedTo(&pods[i])
				if len(mine.containers) == 3 && len(mine.init) == 0 && len(mine.volumes) > 0 {
					injected++
				} else if !mine.none() {
					t.Errorf("pod %s is injected in part: %+v", pods[i].Name, mine)
				}
			}
			if len(pods) != sets*replicas || injected != c.injected {
				t.Errorf("%d pods, %d of them injected; want %d and %d", len(pods), injected, sets*replicas, c.injected)
			}
			for name, before := range applied {
				after, err := client.Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				unwritten(t, before, after)
			}
			t.Logf("figure: %d pods, %d injected", len(pods), injected)
		})
	}
}

// unwritten checks that a StatefulSet is the one that was created.
func unwritten(t *testing.T, before, after *appsv1.StatefulSet) {
	t.Helper()
	if after.Generation != 1 {
		t.Errorf("StatefulSet %s has generation %d", after.Name, after.Generation)
	}
	was, err := json.Marshal(before.Spec)
	if err != nil {
		t.Fatal(err)
	}
	is, err := json.Marshal(after.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if string(was) != string(is) {
		a, _ := compare.JSON(before.Spec)
		b, _ := compare.JSON(after.Spec)
		t.Errorf("StatefulSet %s was written to: %q, %q", after.Name, compare.Lost(a, b), compare.Gained(a, b))
	}
}
