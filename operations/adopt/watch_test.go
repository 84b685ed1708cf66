package adopt

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/stategraft/stategraft/patches"
)

// listed is a server that does not answer a watch with a list, as the fake one does not.
type listed struct{ corev1client.CoreV1Interface }

func (listed) IsWatchListSemanticsUnSupported() bool { return true }

// Only namespaces that ask are watched, and only as long as they do; a change that is read
// is told.
func TestWatches(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	elsewhere := aPod("x-0", "x", "n")
	elsewhere.Namespace = "elsewhere"
	server := fake.NewClientset(aPod("c-0", "c", "n"), elsewhere)
	changed := make(chan struct{}, 100)
	w := &watches{client: listed{server.CoreV1()}, changed: func() { changed <- struct{}{} }, running: map[string]*watched{}}
	defer w.stop()
	if known, err := w.keep(ctx, nil); !known || err != nil || len(server.Actions()) > 0 {
		t.Fatalf("nobody asks: %v, %v, %v", known, err, server.Actions())
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for !is() {
			select {
			case <-ctx.Done():
				t.Fatal(what)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	prod := map[string]bool{"prod": true}
	until("the pods are never known", func() bool { known, err := w.keep(ctx, prod); return known && err == nil })
	if pods := w.pods("prod"); len(pods) != 1 || pods[0].Name != "c-0" || w.pods("elsewhere") != nil {
		t.Errorf("pods %v, elsewhere %v", pods, w.pods("elsewhere"))
	}
	<-changed
	pod := aPod("c-0", "c", "n")
	pod.ResourceVersion = ""
	round(pod, start, cassandra)
	if _, err := server.CoreV1().Pods("prod").Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	<-changed
	until("the change is not seen", func() bool { return len(w.pods("prod")[0].Spec.EphemeralContainers) == 3 })
	if known, _ := w.keep(ctx, nil); !known || w.pods("prod") != nil {
		t.Error("it is watched further")
	}
}

// What is left of a pod says what the whole one does.
func TestSlim(t *testing.T) {
	pod := aPod("c-0", "c", "n")
	pod.Labels = map[string]string{"app": "x"}
	label(pod)
	pod.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now", "stategraft.io/adopt": "running", "stategraft.io/adopt-renew": "1"}
	pod.Spec.Containers = []corev1.Container{{Name: "cassandra", Image: "i"}}
	foreign(pod, "debugger")
	round(pod, start, cassandra)
	allUp(pod)
	is(pod, patches.RoleMedusa, ended(1, start.Add(time.Hour)))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "cassandra"}}
	kept := slim(pod)
	a, b := Of(pod), Of(kept)
	for _, p := range []*Pod{&a, &b} {
		p.Asked, p.Pair, p.Now = true, "p", start.Add(2*time.Hour)
	}
	if x, y := described(Plan(a)), described(Plan(b)); x != y || x != "waiting add 4 all" {
		t.Errorf("of the whole pod %q, of what is kept %q", x, y)
	}
	if workloadOf(pod) != workloadOf(kept) || workloadOf(kept) != "prod/StatefulSet/c" || !ready(kept) {
		t.Errorf("kept %+v", kept)
	}
	if len(kept.Spec.Containers)+len(kept.Status.ContainerStatuses) > 0 || len(kept.Spec.EphemeralContainers) != 3 || len(kept.Annotations) != 2 || kept.Spec.EphemeralContainers[0].Image != "" {
		t.Errorf("too much is kept: %+v", kept)
	}
	other := pod.DeepCopy()
	other.ResourceVersion, other.Status.ContainerStatuses[0].RestartCount = "2", 3
	if !same(kept, slim(other)) {
		t.Error("what is not read makes a difference")
	}
	other.Status.Conditions[0].Status = corev1.ConditionFalse
	if same(kept, slim(other)) {
		t.Error("readiness makes none")
	}
}
