package cycle

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/patches"
)

// add makes pods of another StatefulSet, of the same ConfigMap.
func (w *world) add(set string, names ...string) {
	w.t.Helper()
	w.must(w.c.Create(context.Background(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: set, UID: "o"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(len(names)))}}))
	for _, name := range names {
		p := pod(name, true)
		p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = set, "o"
		status := p.Status
		w.must(w.c.Create(context.Background(), p))
		p.Status = status
		w.must(w.c.Status().Update(context.Background(), p))
	}
}

// TestOneOfACluster has the tiers of a cluster take turns: they read the same ConfigMap.
func TestOneOfACluster(t *testing.T) {
	w := newWorld(t, asks)
	w.add("disk", "disk-0", "disk-1")
	w.settled()
	w.change("2")
	w.settled()
	w.settled()
	if len(w.evicted) != 1 {
		t.Fatalf("evicted %q at once", w.evicted)
	}
	gone := w.evicted[0]
	comes := func(name string, isReady bool) {
		w.comes(name, isReady)
		if strings.HasPrefix(name, "disk") {
			p := &corev1.Pod{}
			w.must(w.c.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: name}, p))
			p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = "disk", "o"
			w.must(w.c.Update(context.Background(), p))
		}
	}
	comes(gone, false)
	w.settled()
	w.settled()
	if len(w.evicted) != 1 {
		t.Fatalf("evicted %q while %s was not Ready", w.evicted, gone)
	}
	w.ready(gone)
	for n := 2; n <= 5; n++ {
		w.run()
		w.settled()
		w.settled()
		if len(w.evicted) != n {
			t.Fatalf("evicted %q, want %d", w.evicted, n)
		}
		comes(w.evicted[n-1], true)
	}
	w.settled()
	w.settled()
	all := slices.Sorted(slices.Values(w.evicted))
	if !slices.Equal(all, []string{"disk-0", "disk-1", "kvs-0", "kvs-1", "kvs-2"}) {
		t.Errorf("evicted %q", w.evicted)
	}
}

// A tier of one node is nowhere while its pod is re-created; the others wait for it all
// the same, but not for ever.
func TestTierOfOne(t *testing.T) {
	w := newWorld(t, asks)
	w.add("disk", "disk-0")
	w.settled()
	w.change("2")
	for n := 1; n <= 4; n++ {
		for range 3 {
			w.settled()
		}
		if len(w.evicted) != n {
			t.Fatalf("evicted %q, want %d", w.evicted, n)
		}
		if gone := w.evicted[n-1]; gone != "disk-0" {
			w.comes(gone, true)
			continue
		}
		w.clock = w.clock.Add(longestAway) // its StatefulSet has been deleted
	}
	if !slices.Contains(w.evicted, "disk-0") {
		t.Errorf("evicted %q", w.evicted)
	}
}

// A backup, or a Restore that does not mark the namespace, is waited for.
func TestWaitsForWhatIsUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		object client.Object
		waits  string
	}{
		"a backup":                   {&api.Backup{Status: api.BackupStatus{Phase: api.BackupRunning, Pods: []api.PodBackup{{Name: "kvs-0"}}}}, "Backup x is under way"},
		"one that waits itself":      {&api.Backup{Status: api.BackupStatus{Phase: api.BackupWaiting, Pods: []api.PodBackup{{Name: "kvs-0"}}}}, ""},
		"one of other pods":          {&api.Backup{Status: api.BackupStatus{Phase: api.BackupRunning, Pods: []api.PodBackup{{Name: "cas-0"}}}}, ""},
		"a merge":                    {&api.Restore{Status: api.RestoreStatus{Phase: api.RestoreRestoring, Pods: []api.PodRestore{{Name: "kvs-2"}}}}, "Restore x is under way"},
		"a merge that is over":       {&api.Restore{Status: api.RestoreStatus{Phase: api.RestoreCompleted, Pods: []api.PodRestore{{Name: "kvs-2"}}}}, ""},
		"one that failed, and holds": {&api.Restore{Status: api.RestoreStatus{Phase: api.RestoreFailed, Pending: []string{"kvs-2"}, Pods: []api.PodRestore{{Name: "kvs-2"}}}}, "Restore x is under way"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, asks)
			c.object.SetNamespace("prod")
			c.object.SetName("x")
			w.must(w.c.Create(context.Background(), c.object))
			w.settled()
			w.change("2")
			w.settled()
			w.settled()
			told := w.told()
			if (len(w.evicted) == 0) != (c.waits != "") || !strings.Contains(told, c.waits) || c.waits != "" && strings.Count(told, eventHeld) != 1 {
				t.Fatalf("evicted %q, told %s", w.evicted, told)
			}
			w.must(w.c.Delete(context.Background(), c.object))
			w.settled()
			if len(w.evicted) == 0 {
				t.Error("and it is not re-created when that is over")
			}
		})
	}
}

// A node of the memory tier has its keys nowhere else.
func TestKeysInMemory(t *testing.T) {
	memory := func(w *world, edit func(*corev1.Pod)) {
		for _, name := range []string{"kvs-0", "kvs-1", "kvs-2"} {
			p := &corev1.Pod{}
			w.must(w.c.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: name}, p))
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, kvs.AnnotationRole, "memory")
			p.Spec.Containers = []corev1.Container{{Name: "kvs", Image: "anna"}, {Name: patches.ContainerAgent, Image: "agent"}}
			edit(p)
			w.must(w.c.Update(context.Background(), p))
		}
	}
	w := newWorld(t, asks)
	memory(w, func(*corev1.Pod) {})
	w.settled()
	w.change("2")
	w.settled()
	w.settled()
	if told := w.told(); len(w.evicted) > 0 || strings.Count(told, "no preStop hook") != 1 {
		t.Errorf("without a hook: evicted %q, told %s", w.evicted, told)
	}
	memory(w, func(p *corev1.Pod) {
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: patches.PathDepart}}}
	})
	w.settled()
	if len(w.evicted) != 1 {
		t.Errorf("with one: evicted %q, told %s", w.evicted, w.told())
	}
	g := workloadOf("O")
	g.members[0].pod.Annotations = map[string]string{kvs.AnnotationRole: "memory"}
	s := situation{restart: func(*corev1.Pod) bool { return true }, calm: DefaultSettle, settle: DefaultSettle}
	if out := g.next(s); out.evict != nil || out.wait != waitLast {
		t.Errorf("the only one goes: %+v", out)
	}
	g.members[0].pod.Status.Conditions = nil
	if out := g.next(s); out.evict == nil {
		t.Errorf("one that holds nothing stays: %+v", out)
	}
}
