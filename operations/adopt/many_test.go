package adopt

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// Of pods that were made alike one is read to know that they are no databases. An operator's
// pods are each judged by themselves, though they have one owner, and so are those of another
// revision and those that say something of their own.
func TestAlike(t *testing.T) {
	none := webhook.Outcome{Decision: workload.Decision{Verdict: workload.Skip, Reason: workload.ReasonNotADatabase, Message: "so it is"}}
	make := func(name, kind, revision string) *corev1.Pod {
		p := aPod(name, "o", "n")
		p.OwnerReferences[0].Kind, p.OwnerReferences[0].UID = kind, types.UID(kind)
		p.OwnerReferences[0].APIVersion = map[string]string{"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1", "Cluster": "x.io/v1"}[kind]
		if revision != "" {
			metav1.SetMetaDataLabel(&p.ObjectMeta, appsv1.ControllerRevisionHashLabelKey, revision)
		}
		return p
	}
	labelled := make("d", "ReplicaSet", "")
	labelled.Annotations = map[string]string{api.AnnotationContainer: "db"}
	for name, c := range map[string]struct {
		pods  []*corev1.Pod
		reads int
	}{
		"a ReplicaSet":         {[]*corev1.Pod{make("a", "ReplicaSet", ""), make("b", "ReplicaSet", ""), make("c", "ReplicaSet", "")}, 1},
		"one says another":     {[]*corev1.Pod{make("a", "ReplicaSet", ""), labelled}, 2},
		"a Job":                {[]*corev1.Pod{make("a", "Job", ""), make("b", "Job", "")}, 1},
		"two revisions":        {[]*corev1.Pod{make("a", "StatefulSet", "1"), make("b", "StatefulSet", "1"), make("c", "StatefulSet", "2")}, 2},
		"of no revision known": {[]*corev1.Pod{make("a", "StatefulSet", ""), make("b", "StatefulSet", "")}, 2},
		"an operator":          {[]*corev1.Pod{make("a", "Cluster", ""), make("b", "Cluster", "")}, 2},
	} {
		w := newWorld(t, c.pods...)
		for _, p := range c.pods {
			w.out[p.Name] = none
		}
		for range 3 {
			w.expect(name, "")
		}
		if w.reads != c.reads {
			t.Errorf("%s: %d read, want %d", name, w.reads, c.reads)
		}
		w.clock = w.clock.Add(2 * time.Hour)
		w.out = map[string]webhook.Outcome{}
		if w.look() == "" {
			t.Errorf("%s: never judged again", name)
		}
	}
	// That a pod is not adopted for another reason says nothing of the next.
	w := newWorld(t, make("a", "ReplicaSet", ""), make("b", "ReplicaSet", ""))
	w.out["a"] = webhook.Outcome{Decision: workload.Decision{Verdict: workload.Skip, Reason: workload.ReasonSubPath, Message: "so it is"}}
	w.expect("the other", "b: agent-1 snapshot-2 medusa-3")
}

// fixed has the pods as an informer has them: the same each time.
type fixed struct {
	*world
	kept []*corev1.Pod
}

func (f fixed) pods(string) []*corev1.Pod { return f.kept }

// BenchmarkMany is a look at 20,000 pods of 400 workloads, none of which is a database.
func BenchmarkMany(b *testing.B) {
	var pods []*corev1.Pod
	for i := range 20000 {
		p := aPod(fmt.Sprintf("web-%d", i), fmt.Sprintf("web%d", i/50), "n")
		p.OwnerReferences[0].Kind, p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].UID = "ReplicaSet", "apps/v1", types.UID(p.OwnerReferences[0].Name)
		pods = append(pods, p)
	}
	w := newWorld(&testing.T{}, pods...)
	for _, p := range pods {
		w.out[p.Name] = webhook.Outcome{Decision: workload.Decision{Verdict: workload.Skip, Reason: workload.ReasonNotADatabase}}
	}
	w.source = fixed{w, w.pods("prod")}
	look := func() {
		if _, err := w.pass(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	for range 20 {
		look()
	}
	if w.reads != 400 {
		b.Fatalf("%d pods are read", w.reads)
	}
	b.ReportAllocs()
	for b.Loop() {
		look()
	}
}
